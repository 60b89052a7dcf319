"""What a change makes different: two replays side by side. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from multiqueue.api.conditions import Reason
from multiqueue.whatif.outcome import QueueSum, ReplayedWorkload, ReplayOutcome

NEVER = frozenset({Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR, Reason.MISCONFIGURED})
"""Reasons of waiting that no end of another job solves."""


class Effect(StrEnum):
    """What the change does to a Workload, compared with no change."""

    STARTS = "starts now"
    STOPPED = "is stopped"
    RESTARTED = "is stopped, starts again"
    SPARED = "is not stopped"
    WAITS = "does not start now"
    NEVER = "can never start"
    LATER = "waits longer"
    SOONER = "waits less"
    NEW = "is new"
    GONE = "is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effected:
    """A Workload for which the two worlds differ.

    Attributes:
        before: It in the world without the change; None if only the change has it.
        after: It in the world with the change; None if the change removes it.
    """

    key: str
    effect: Effect
    before: ReplayedWorkload | None
    after: ReplayedWorkload | None

    @property
    def known(self) -> ReplayedWorkload:
        """The Workload in the changed world, or else as it was."""
        found = self.after or self.before
        assert found is not None, "one of the two worlds has it"
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceSums:
    """The difference in numbers; ``gpus_*`` are the accelerators of all ClusterQueues."""

    starts: int
    stopped: int
    longer: int
    never: int
    gpu_hours_lost: float
    gpus_idle_before: int
    gpus_idle_after: int
    gpus_borrowed_before: int
    gpus_borrowed_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The Workloads for which two worlds differ, the worst first, and the sums."""

    effected: tuple[Effected, ...]
    sums: DifferenceSums


_ORDER = tuple(Effect)


def compare_outcomes(before: ReplayOutcome, after: ReplayOutcome) -> Difference:
    """Compare a replay without a change with one with it."""
    found = []
    for key in sorted(before.workloads.keys() | after.workloads.keys()):
        old, new = before.workloads.get(key), after.workloads.get(key)
        effect = find_effect(old, new)
        if effect is not None:
            found.append(Effected(key=key, effect=effect, before=old, after=new))
    found.sort(key=lambda each: (_ORDER.index(each.effect), each.key))
    return Difference(effected=tuple(found), sums=_sum(found, before, after))


def find_effect(before: ReplayedWorkload | None, after: ReplayedWorkload | None) -> Effect | None:
    """Return the effect on one Workload; None if there is none."""
    if after is None:
        return Effect.GONE
    if before is None:
        return Effect.STARTS if after.fate.has_quota else _find_delay(after, Effect.NEW)
    if after.stop is not None and before.stop is None:
        return Effect.RESTARTED if after.fate.has_quota else Effect.STOPPED
    if before.stop is not None and after.stop is None and after.fate.has_quota:
        return Effect.SPARED
    if before.fate.has_quota != after.fate.has_quota:
        return Effect.STARTS if after.fate.has_quota else _find_delay(after, Effect.WAITS)
    if after.fate.has_quota:
        return None
    if (before.reason in NEVER) != (after.reason in NEVER):
        return Effect.NEVER if after.reason in NEVER else Effect.SOONER
    if before.position is None or after.position is None or before.position == after.position:
        return None
    return Effect.LATER if after.position > before.position else Effect.SOONER


def _find_delay(after: ReplayedWorkload, otherwise: Effect) -> Effect:
    return Effect.NEVER if after.reason in NEVER else otherwise


def _sum(found: list[Effected], before: ReplayOutcome, after: ReplayOutcome) -> DifferenceSums:
    def count(*effects: Effect) -> int:
        return sum(each.effect in effects for each in found)

    stopped = [e.after for e in found if e.effect in {Effect.STOPPED, Effect.RESTARTED}]
    lost = sum(
        each.gpus * each.stop.lost_seconds / 3600
        for each in stopped
        if each is not None and each.stop is not None
    )
    return DifferenceSums(
        starts=count(Effect.STARTS),
        stopped=len(stopped),
        longer=count(Effect.LATER, Effect.WAITS, Effect.NEVER),
        never=count(Effect.NEVER),
        gpu_hours_lost=round(lost, 3),
        gpus_idle_before=_count_idle(before.queues),
        gpus_idle_after=_count_idle(after.queues),
        gpus_borrowed_before=sum(each.borrowed for each in before.queues.values()),
        gpus_borrowed_after=sum(each.borrowed for each in after.queues.values()),
    )


def _count_idle(queues: Mapping[str, QueueSum]) -> int:
    """Return the accelerators of nominal quota that nobody uses, lent ones not counted."""
    nominal = sum(each.nominal for each in queues.values())
    return max(0, nominal - sum(each.used for each in queues.values()))
