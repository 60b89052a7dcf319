"""Who may not be stopped although preemption policies allow it, until when, and in which words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from multiqueue.api.v1beta2 import format_time
from multiqueue.engine.disruption.protection import HoldOff
from multiqueue.engine.pending_reasons import HeldBack


class Refusals:
    """What DisruptionPolicies refused while one head was judged. Mutable; one for the engine.

    Shape: ``expires_at`` is when the verdict may be another one although nothing in the tree has
    changed, in seconds since the epoch; None if never. ``wakes_at`` is the same for a head that
    was refused.
    """

    def __init__(self) -> None:
        self._candidates: dict[str, HoldOff | None] = {}
        self._plan: HoldOff | None = None
        self.expires_at: int | None = None

    def clear(self) -> None:
        """Begin with another head."""
        self._candidates.clear()
        self._plan = None
        self.expires_at = None

    def consider(self, key: str, off: HoldOff | None) -> None:
        """Note a candidate, and why it may not be stopped.

        The searches of one verdict may differ in the cause; a refusal stays noted.
        """
        if off is not None or key not in self._candidates:
            self._candidates[key] = off
        if off is not None and off.until is not None:
            self.expire_at(off.until)

    def refuse_plan(self, off: HoldOff) -> None:
        """Note that a decision as a whole goes too far."""
        self._plan = off
        if off.until is not None:
            self.expire_at(off.until)

    def expire_at(self, moment: int) -> None:
        """Let the verdict hold until then at most."""
        self.expires_at = moment if self.expires_at is None else min(self.expires_at, moment)

    @property
    def wakes_at(self) -> int | None:
        """The earliest end of a refusal; None if only a change ends them."""
        offs = [*self._candidates.values(), self._plan]
        return min(
            (off.until for off in offs if off is not None and off.until is not None), default=None
        )

    def sum_up(self) -> HeldBack | None:
        """Return the refusals in words; None if there are none."""
        if self._plan is not None:
            return HeldBack(self._plan.words)
        refused = [off for off in self._candidates.values() if off is not None]
        if not refused:
            return None
        total = len(self._candidates)
        noun = "candidate" if total == 1 else "candidates"
        return HeldBack(
            f"{len(refused)} of {total} {noun} may not be stopped: {', '.join(_group(refused))}"
        )


def _group(refused: Iterable[HoldOff]) -> Iterable[str]:
    """Yield a text for each kind of refusal, by its end."""
    groups: dict[str, list[int | None]] = {}
    for off in refused:
        groups.setdefault(off.words, []).append(off.until)
    ordered = sorted(groups.items(), key=lambda group: (_first(group[1]) or 2**62, group[0]))
    for words, ends in ordered:
        first = _first(ends)
        if first is None:
            yield f"{len(ends)} until that changes ({words})"
            continue
        later = " or later" if len(set(ends)) > 1 else ""
        yield f"{len(ends)} until {format_seconds_since_epoch(first)}{later} ({words})"


def _first(ends: Iterable[int | None]) -> int | None:
    return min((end for end in ends if end is not None), default=None)


def format_seconds_since_epoch(moment: int) -> str:
    """Return a time as the API writes it."""
    return format_time(datetime.fromtimestamp(moment, UTC))
