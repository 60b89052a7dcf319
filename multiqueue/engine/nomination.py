"""The verdict on one head at the state in which its cycle began."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.flavors.assignment import Assignment
from multiqueue.engine.pending_reasons import HeldBack
from multiqueue.engine.plan import RequeueReason
from multiqueue.engine.preemption.target import Target
from multiqueue.engine.queues.resume import ResumePoint
from multiqueue.engine.quota_usage import SliceToReplace
from multiqueue.engine.value import Value
from multiqueue.model.workload import Workload


class Rejected(Value, frozen=True, kw_only=True, gc=False):
    """The head cannot be tried: no flavors were searched (E-40)."""

    requeue_reason: RequeueReason
    reason: Reason
    note: str


class Nominated(Value, frozen=True, kw_only=True, gc=False):
    """The head and the flavors that it would get once the targets have left.

    Shape: ``replaced`` is the key of the slice whose quota it would take over, "" for none.
    ``held_back`` says why DisruptionPolicies leave it without targets; None if they do not.
    """

    assignment: Assignment
    targets: tuple[Target, ...] = ()
    replaced: str = ""
    held_back: HeldBack | None = None


Verdict: TypeAlias = Rejected | Nominated


class Memo(Value, frozen=True, kw_only=True, gc=False):
    """A verdict and the state that it holds for: the same tree, unchanged since.

    Two heads get the same verdict from the same state, so a head that stays a head is judged again
    only when its tree changed; targets that left, or that are to leave now, are such a change.

    What it replaces changes without its tree: a write is seen, an eviction is told or was not.

    Shape: ``expires_at`` is when DisruptionPolicies may make it another verdict although nothing
    changes, in seconds since the epoch; None if never. ``wakes_at`` is when a head that parks with
    the verdict has to be woken for that. ``again`` has the last second look at the
    head, by what it was judged beside (E-70).
    """

    tree: Tree
    version: int
    workload: Workload
    start: ResumePoint | None
    replaced_slice: SliceToReplace | None
    verdict: Verdict
    again: dict[Hashable, Nominated]
    expires_at: int | None = None
    wakes_at: int | None = None
