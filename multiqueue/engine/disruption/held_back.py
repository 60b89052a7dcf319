"""Who may not be stopped although preemption policies allow it, until when, and in which words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from multiqueue.api.v1beta2 import format_time
from multiqueue.engine.disruption.protection import HoldOff
from multiqueue.engine.pending_reasons import HeldBack


class Refusals:
    """What DisruptionPolicies refused while one head was judged. Mutable; one for the engine.

    Units: times are in seconds since the epoch.
    """

    def __init__(self) -> None:
        self._considered: list[Mapping[str, HoldOff | None]] = []
        self._wakes_at: int | None = None
        self._plan: HoldOff | None = None
        self._order_until: int | None = None

    def clear(self) -> None:
        """Begin with another head."""
        self._considered.clear()
        self._plan = None
        self._order_until = self._wakes_at = None

    def consider(self, offs: Mapping[str, HoldOff | None], first_end: int | None) -> None:
        """Note candidates, why they may not be stopped, and the first end of that.

        The searches of one verdict may differ in the cause; a refusal stays noted.
        """
        self._considered.append(offs)
        self._wakes_at = first_of((self._wakes_at, first_end))

    def refuse_plan(self, off: HoldOff) -> None:
        """Note that a decision as a whole goes too far."""
        self._plan = off
        self._wakes_at = first_of((self._wakes_at, off.until))

    def expire_at(self, moment: int) -> None:
        """Let the verdict hold until then at most."""
        self._order_until = first_of((self._order_until, moment))

    def find_ends(self) -> tuple[int | None, int | None]:
        """Return when the verdict expires, and when somebody who was refused is tried again.

        Both are None if only a change ends them.
        """
        return first_of((self._wakes_at, self._order_until)), self._wakes_at

    def sum_up(self) -> HeldBack | None:
        """Return the refusals in words; None if there are none."""
        if self._plan is not None:
            return HeldBack(self._plan.words)
        candidates: dict[str, HoldOff | None] = {}
        for offs in self._considered:
            for key, off in offs.items():
                if off is not None or key not in candidates:
                    candidates[key] = off
        refused = [off for off in candidates.values() if off is not None]
        if not refused:
            return None
        total = len(candidates)
        noun = "candidate" if total == 1 else "candidates"
        return HeldBack(
            f"{len(refused)} of {total} {noun} may not be stopped: {', '.join(_group(refused))}"
        )


def _group(refused: Iterable[HoldOff]) -> Iterable[str]:
    """Yield a text for each kind of refusal, by its end."""
    groups: dict[str, list[int | None]] = {}
    for off in refused:
        groups.setdefault(off.words, []).append(off.until)
    ordered = sorted(groups.items(), key=lambda group: (first_of(group[1]) or 2**62, group[0]))
    for words, ends in ordered:
        first = first_of(ends)
        if first is None:
            yield f"{len(ends)} until that changes ({words})"
            continue
        later = " or later" if len(set(ends)) > 1 else ""
        yield f"{len(ends)} until {format_seconds_since_epoch(first)}{later} ({words})"


def first_of(ends: Iterable[int | None]) -> int | None:
    """Return the first end; None if there is none."""
    return min((end for end in ends if end is not None), default=None)


def format_seconds_since_epoch(moment: int) -> str:
    """Return a time as the API writes it."""
    return format_time(datetime.fromtimestamp(moment, UTC))
