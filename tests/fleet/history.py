"""What happened in a run, in order: every change of an object, and every event of the script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fleet.kinds import JOB_PLURALS, has_ended, is_suspended
from tests.fleet.objects import Json


@dataclass(frozen=True, slots=True)
class Change:
    """One object changed on one cluster.

    Attributes:
        at: Seconds since the run began.
        cluster: Where.
        actor: Who asked for it: a manager, a worker's own controllers, ``user``, ``cluster``.
        plural: The collection.
        key: ``namespace/name``, or the name.
        old: Before; None where it was created.
        new: After; None where it is gone.
        verb: ``create``, ``update``, ``status``, ``delete`` (asked for) or ``remove`` (gone).
    """

    at: float
    cluster: str
    actor: str
    plural: str
    key: str
    old: Json | None
    new: Json | None
    verb: str

    def __str__(self) -> str:
        return f"{self.cluster}: {self.actor} {self.verb}s {self.plural} {self.key}"


class History:
    """Tells whoever listens of each change, and keeps a readable log of everything.

    Args:
        clock: Seconds since the run began.
        keep_log: Whether lines are kept; a run that nobody replays needs none.
    """

    def __init__(self, clock: Callable[[], float], *, keep_log: bool = False) -> None:
        self.lines: list[str] = []
        self.counts: dict[str, int] = {}
        self._clock = clock
        self._keep_log = keep_log
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call this with each change, at once."""
        self._listeners.append(listener)

    def dismiss_listeners(self) -> None:
        """Tell nobody of further changes."""
        self._listeners.clear()

    def note(self, what: str, words: Callable[[], str] | str) -> None:
        """Count something that happened, and write it down."""
        self.counts[what] = self.counts.get(what, 0) + 1
        if self._keep_log:
            text = words if isinstance(words, str) else words()
            self.lines.append(f"{self._clock():10.3f}  {what:<12} {text}")

    def change(  # one argument a field of Change
        self,
        cluster: str,
        actor: str,
        verb: str,
        plural: str,
        key: str,
        old: Json | None,
        new: Json | None,
    ) -> None:
        """Record a change and tell the listeners."""
        change = Change(self._clock(), cluster, actor, plural, key, old, new, verb)
        if self._keep_log and plural != "leases":
            self.lines.append(f"{change.at:10.3f}  {'write':<12} {change}{_describe(change)}")
        for listener in self._listeners:
            listener(change)


def _describe(change: Change) -> str:
    """Say in a few words what is different."""
    old, new = change.old or {}, change.new or {}
    if change.plural == "workloads":
        before, after = _workload_words(old), _workload_words(new)
        return f"  [{after}]" if before != after else ""
    if change.plural in JOB_PLURALS:
        before, after = _job_words(old), _job_words(new)
        return f"  [{after}]" if before != after else ""
    return ""


def _workload_words(workload: Json) -> str:
    status = workload.get("status") or {}
    words = [c["type"] for c in status.get("conditions") or () if c.get("status") == "True"]
    words += [f"{c['name']}={c['state']}" for c in status.get("admissionChecks") or ()]
    if status.get("clusterName"):
        words.append(f"on {status['clusterName']}")
    if status.get("nominatedClusterNames"):
        words.append(f"nominated {','.join(status['nominatedClusterNames'])}")
    if (workload.get("metadata") or {}).get("deletionTimestamp"):
        words.append("deleting")
    if (workload.get("spec") or {}).get("active") is False:
        words.append("inactive")
    return " ".join(words)


def _job_words(job: Json) -> str:
    if not job:
        return ""
    status = job.get("status") or {}
    words = ["suspended" if is_suspended(job) else "released"]
    words += ["ended"] if has_ended(job) else []
    if status.get("active"):
        words.append(f"active={status['active']}")
    words += [c["type"] for c in status.get("conditions") or () if c.get("status") == "True"]
    if job["metadata"].get("deletionTimestamp"):
        words.append("deleting")
    return " ".join(words)
