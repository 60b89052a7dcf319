"""What happened lately, in the memory of every replica: transitions, minutes and changed specs.

Bounded: `MAX_TRANSITIONS` of all Workloads together and 32 of each, 24 hours of minutes for
`MAX_NAMES` queues and workers, and 1,000 changed specs; the oldest go first. That is at most about
128 MB. What happened before the start of this replica is not here; ``since`` says how far it goes
back. `multiqueue.views.spans` reads earlier steps from the conditions.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from multiqueue.api.names import CORDON, DRAIN
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import Workload
from multiqueue.kube.resources import WORKLOADS
from multiqueue.views.phase import Phase, PhaseState, find_phase
from multiqueue.views.spans import PhaseStep
from multiqueue.views.standing import find_code, write_time

Json = dict[str, Any]

OF_A_WORKLOAD = 32
MAX_TRANSITIONS = 150_000
"""About 50 MB."""
MINUTES, STEP_MINUTES = 24 * 60, 10
FIGURES = ("waiting", "holding", "gpus", "borrowed", "lent", "share")
MAX_NAMES = 800
"""Queues and workers of which minutes are kept: 81 KB each, 65 MB together."""
MAX_CHANGES = 1000
"""Changes that are kept; older ones are forgotten."""
MAX_FIELDS, MAX_VALUE = 20, 120
"""Fields of one change, and characters of a value."""
MAX_WHY = 120
OF_PODS = frozenset({PhaseState.STARTING, PhaseState.RUNNING})
"""Phases that the status of a job tells before, or without, a condition of its Workload."""


class SpecChange(NamedTuple):
    """A change of a spec, or what somebody did on the dashboard.

    Attributes:
        number: Counts the changes; it is the name of the row.
        action: ``created``, ``changed``, ``deleted``, or the verb of the dashboard.
        fields: (path, from, to), the values as JSON.
        by: Who did it on the dashboard; empty: not known.
    """

    number: int
    at: datetime
    kind: str
    name: str
    action: str
    fields: tuple[tuple[str, str | None, str | None], ...] = ()
    by: str = ""


class History:
    """The history of one replica.

    Args:
        since: The start of this replica.
        most: How many transitions are kept.

    Attributes:
        since: The start of this replica.
        changes: The last changed specs, the oldest first.
    """

    def __init__(self, since: datetime, *, most: int = MAX_TRANSITIONS) -> None:
        self.since = since
        self._most = most
        self.changes: deque[SpecChange] = deque(maxlen=MAX_CHANGES)
        self._count = 0
        self._transitions: OrderedDict[str, deque[PhaseStep]] = OrderedDict()
        self._kept = 0
        self._minutes: dict[str, array[int]] = {}

    def note_workload(self, old: Workload | None, new: Workload | None, now: datetime) -> None:
        """Note the phase of a Workload if it changed; forget a Workload that is gone."""
        if new is None:
            if old is not None:
                self._kept -= len(self._transitions.pop(old.metadata.key, ()))
            return
        if old is None or old.status is new.status:
            return
        was, phase = find_phase(old), find_phase(new)
        if (was.state, was.worker, was.offered_to) == (phase.state, phase.worker, phase.offered_to):
            return
        at = phase.since if phase.since is not None and phase.since <= now else now
        self._append_step(new, phase, at)

    def note_job(
        self, workload: Workload, old: Json | None, new: Json | None, now: datetime
    ) -> None:
        """Note the phase of a Workload if it changed because of its job's pods.

        A job that is seen for the first time tells nothing: its pods may have run for long.
        """
        if old is None or new is None:
            return
        phase = find_phase(workload, new)
        if phase.state in OF_PODS and phase.state is not find_phase(workload, old).state:
            self._append_step(workload, phase, now)

    def _append_step(self, workload: Workload, phase: Phase, at: datetime) -> None:
        known = self._transitions.setdefault(workload.metadata.key, deque(maxlen=OF_A_WORKLOAD))
        self._kept += len(known) < OF_A_WORKLOAD
        known.append(
            PhaseStep(
                at=at,
                phase=str(phase.state),
                worker=phase.worker or None,
                code=find_code(workload, phase.state),
                why=phase.why[:MAX_WHY],
            )
        )
        self._transitions.move_to_end(workload.metadata.key)
        while self._kept > self._most:
            self._kept -= len(self._transitions.popitem(last=False)[1])

    def find_transitions(self, key: str) -> tuple[PhaseStep, ...]:
        """Return the last transitions of a Workload, the oldest first."""
        return tuple(self._transitions.get(key, ()))

    def note_spec(
        self, kind: str, old: msgspec.Struct | None, new: msgspec.Struct | None, now: datetime
    ) -> str | None:
        """Note a change of a spec; return the name of its row, None if nothing changed."""
        if old is not None and new is not None and _ordered(old) == _ordered(new):
            return None  # most changes are those of the status
        before, after = _read(old), _read(new)
        fields = tuple(_differences("", before, after))[:MAX_FIELDS]
        if not fields:
            return None
        known = new if new is not None else old
        assert known is not None
        action = "created" if old is None else "deleted" if new is None else "changed"
        key: str = known.metadata.key  # type: ignore[attr-defined]
        return self._append(now, kind, key, action, fields if action == "changed" else ())

    def note_action(self, kind: str, key: str, verb: str, by: str, now: datetime) -> str:
        """Note what a reader did on the dashboard of this replica. Parity: S-39.

        Of a Workload only the namespace is kept. Only those who may list the Workloads of all
        namespaces read it, as ``by`` often is an e-mail address.
        """
        shown = key.partition("/")[0] if kind == WORKLOADS.kind else key
        return self._append(now, kind, shown, verb, (), by[:MAX_VALUE])

    def _append(self, now: datetime, *what: Any) -> str:
        self._count += 1
        self.changes.append(SpecChange(self._count, now, *what))
        return str(self._count)

    def note_minute(self, name: str, now: datetime, figures: Mapping[str, int | None]) -> None:
        """Keep the figures of a queue or worker for the current minute."""
        ring = self._minutes.get(name)
        if ring is None:
            if len(self._minutes) >= MAX_NAMES:
                return
            ring = self._minutes[name] = array("q", [0]) * (MINUTES * (len(FIGURES) + 1))
        minute = int(now.timestamp()) // 60
        at = (minute % MINUTES) * (len(FIGURES) + 1)
        ring[at] = minute
        for place, figure in enumerate(FIGURES, start=1):
            value = figures.get(figure)
            ring[at + place] = -1 if value is None else min(value, 2**62)

    def list_minutes(self, name: str, now: datetime) -> list[Json]:
        """Return every tenth minute of a queue or worker, the oldest first."""
        found = []
        last = int(now.timestamp()) // 60
        first = last - MINUTES + 1
        for minute in range(first + -first % STEP_MINUTES, last + 1, STEP_MINUTES):
            figures = self._find_minute(name, minute)
            if figures is not None:
                time = write_time(datetime.fromtimestamp(minute * 60, UTC))
                found.append({"at": time, **figures})
        return found

    def count_starved(self, name: str, nominal: int, now: datetime) -> int:
        """Return for how many minutes a queue has waited with less than its nominal GPUs."""
        last = int(now.timestamp()) // 60
        if self._find_minute(name, last) is None:
            last -= 1  # the current minute is not noted yet
        for minute in range(last, last - MINUTES, -1):
            figures = self._find_minute(name, minute)
            if figures is None or not figures["waiting"] or (figures["gpus"] or 0) >= nominal:
                return last - minute
        return MINUTES

    def _find_minute(self, name: str, minute: int) -> dict[str, int | None] | None:
        ring, width = self._minutes.get(name), len(FIGURES) + 1
        at = (minute % MINUTES) * width
        if ring is None or ring[at] != minute:
            return None
        values = [None if value < 0 else value for value in ring[at + 1 : at + width]]
        return dict(zip(FIGURES, values, strict=True))

    def keep_minutes_of(self, names: set[str]) -> None:
        """Forget the minutes of queues and workers that do not exist any more."""
        for name in self._minutes.keys() - names:
            del self._minutes[name]


def _ordered(obj: Any) -> tuple[Any, dict[str, str]]:
    """Return what people order: the spec, and the annotations that cordon or drain a worker."""
    annotations = {
        name: value for name, value in obj.metadata.annotations.items() if name in {CORDON, DRAIN}
    }
    return obj.spec, annotations


def _read(obj: msgspec.Struct | None) -> Json:
    if obj is None:
        return {}
    return {"spec": encode(obj).get("spec") or {}, "annotations": _ordered(obj)[1]}


def _differences(
    path: str, before: Any, after: Any
) -> Iterator[tuple[str, str | None, str | None]]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            where = f"{path}.{name}" if path else name
            yield from _differences(where, before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list):
        for place in range(max(len(before), len(after))):
            yield from _differences(f"{path}[{place}]", _at(before, place), _at(after, place))
    else:
        yield path, _show(before), _show(after)


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


def _show(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:MAX_VALUE]
