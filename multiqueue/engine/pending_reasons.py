"""Why a workload waits: the text of its condition (`visibility/pending_words.py` is for `why`).

The search for flavors records typed refusals. The text is made only when somebody reads it (E-58,
E-59, E-114).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2.meta import Taint
from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount, add, subtract
from multiqueue.model.resources import format_amount

SEVERITY = {
    Reason.TOPOLOGY_PLACEMENT_FAILED: 0,
    Reason.WAITING_FOR_QUOTA: 1,
    Reason.EXCEEDS_MAX_QUOTA: 2,
    Reason.NO_MATCHING_FLAVOR: 3,
}
"""Severity of a refusal (E-58): from "when others make room" to "not in this queue"."""


class Shortfall(NamedTuple):
    """A flavor has too little of a resource.

    A tuple, not a dataclass, like the two classes that contain it: several are made for every
    waiting head, and few are ever read.

    Args:
        flavor: name of the flavor.
        resource: name of the resource.
        asked: amount that the pod set requests.
        previous: amount that earlier pod sets of the same workload took from this flavor.
        free: unused quota of the ClusterQueue itself.
        borrowable: amount that the cohort could lend now in addition.
        maximum: the most that the ClusterQueue could ever use, with everything borrowed.
    """

    flavor: str
    resource: str
    asked: Amount
    previous: Amount
    free: Amount
    borrowable: Amount
    maximum: Amount

    @property
    def missing(self) -> Amount:
        """How much quota has to become free."""
        return subtract(self.previous + self.asked, add(self.free, self.borrowable))

    @property
    def reason(self) -> Reason:
        """Whether waiting can help."""
        if self.previous + self.asked > self.maximum:
            return Reason.EXCEEDS_MAX_QUOTA
        return Reason.WAITING_FOR_QUOTA

    def __str__(self) -> str:
        where = f"{self.resource} in flavor {self.flavor}"
        if self.reason is Reason.WAITING_FOR_QUOTA:
            missing = format_amount(self.resource, self.missing)
            return f"insufficient unused quota for {where}, {missing} more needed"
        previous, asked, maximum = (
            format_amount(self.resource, amount)
            for amount in (self.previous, self.asked, self.maximum)
        )
        return (
            f"insufficient quota for {where}, previously considered podsets requests ({previous}) "
            f"+ current podset request ({asked}) > maximum capacity ({maximum})"
        )

    @property
    def words(self) -> str:
        """The same for people; `str` has upstream's words, which tools read."""
        if self.reason is Reason.WAITING_FOR_QUOTA:
            return str(self)
        total, maximum = (
            format_amount(self.resource, amount)
            for amount in (add(self.previous, self.asked), self.maximum)
        )
        return (
            f"{total} {self.resource} are more than the ClusterQueue can ever use in flavor "
            f"{self.flavor}, which is {maximum}"
        )


class NoMatchingFlavor:
    """A refusal that waiting does not change; ``text`` has its fields in braces."""

    __slots__ = ()
    reason: ClassVar[Reason] = Reason.NO_MATCHING_FLAVOR
    text: ClassVar[str]

    def __str__(self) -> str:
        return self.text.format(self=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntoleratedTaint(NoMatchingFlavor):
    """The pods do not tolerate a taint of the flavor's nodes."""

    flavor: str
    taint: Taint
    text = (
        "untolerated taint {{{self.taint.key} {self.taint.value} {self.taint.effect} <nil>}} "
        "in flavor {self.flavor}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityMismatch(NoMatchingFlavor):
    """Node selector or required affinity of the pods excludes the flavor's nodes."""

    flavor: str
    text = "flavor {self.flavor} doesn't match node affinity"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFlavorThanBefore(NoMatchingFlavor):
    """The slice to replace has another flavor, and its pods keep running there (E-167)."""

    flavor: str
    original: str
    text = (
        "could not assign {self.flavor} flavor since the original workload is assigned: "
        "{self.original}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSlice(NoMatchingFlavor):
    """The pods of the slice to replace are placed in a topology."""

    flavor: str
    text = "Flavor {self.flavor} has a topology, where elastic jobs keep their size while they run"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyMismatch(NoMatchingFlavor):
    """The pods request a topology that the flavor lacks, or none if it has one (E-62)."""

    flavor: str
    wanted: bool

    def __str__(self) -> str:
        what = "does not support" if self.wanted else "supports only"
        return f'Flavor "{self.flavor}" {what} TopologyAwareScheduling'


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorNotFound(NoMatchingFlavor):
    """The ClusterQueue names a flavor that does not exist."""

    flavor: str
    text = "flavor {self.flavor} not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNotCovered(NoMatchingFlavor):
    """No resource group of the ClusterQueue has the resource."""

    resource: str
    text = "resource {self.resource} unavailable in ClusterQueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidPlacement(NoMatchingFlavor):
    """The node selector or affinity of the pods is invalid."""

    flavor: str
    detail: str
    text = "node affinity cannot be matched with flavor {self.flavor}: {self.detail}"


class TopologyPlacement(NamedTuple):
    """The pods do not fit into the topology of a flavor that has quota for them (E-57)."""

    flavor: str
    failure: PlacementFailure

    @property
    def reason(self) -> Reason:
        """Others may leave, or be preempted."""
        return Reason.TOPOLOGY_PLACEMENT_FAILED

    def __str__(self) -> str:
        return self.failure.message


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyLevelMissing(NoMatchingFlavor):
    """The topology of the flavor lacks a level that the pods request (E-62)."""

    flavor: str
    text = 'Flavor "{self.flavor}" does not contain the requested level'


class NoClusterHolds(NamedTuple):
    """No cluster that would run the pods can ever hold them on hardware of the flavor."""

    flavor: str
    reason: Reason
    words: str

    def __str__(self) -> str:
        return f"on flavor {self.flavor}, {self.words}"


Refusal: TypeAlias = Shortfall | TopologyPlacement | NoClusterHolds | NoMatchingFlavor


class FlavorAttempt(NamedTuple):
    """One flavor that was tried, and its refusals. ``flavor`` is "" if there was none."""

    flavor: str
    refusals: tuple[Refusal, ...]

    @property
    def reason(self) -> Reason:
        """The most severe refusal."""
        return _most_severe(refusal.reason for refusal in self.refusals)


class PodSetExplanation(NamedTuple):
    """Why a pod set got no flavors: one tuple of attempts per resource group that failed."""

    name: str
    pods: int
    groups: tuple[tuple[FlavorAttempt, ...], ...]

    @property
    def reason(self) -> Reason:
        """Per resource group the least severe flavor; of the groups the most severe one (E-58)."""
        if not self.groups:
            return Reason.NO_MATCHING_FLAVOR
        return _most_severe(
            min((attempt.reason for attempt in group), key=SEVERITY.__getitem__)
            for group in self.groups
        )

    @property
    def refusals(self) -> list[Refusal]:
        """Every refusal of every flavor."""
        return [
            refusal for group in self.groups for attempt in group for refusal in attempt.refusals
        ]

    def __str__(self) -> str:
        reasons = ", ".join(sorted({str(refusal) for refusal in self.refusals}))
        return f"couldn't assign flavors to pod set {self.name}: {reasons}"


class ShareLoss(NamedTuple):
    """With fair sharing, the subtree that may give has no larger share than the one that asks.

    Shares are rounded up, as in the status; ``share`` is that with the workload in it (E-99).
    """

    name: str
    share: int
    other: str
    other_share: int

    def __str__(self) -> str:
        return (
            f"fair sharing: {self.name} would have a share of {self.share}, and {self.other}, "
            f"the largest that may give, has {self.other_share}"
        )


class HeldBack(NamedTuple):
    """Why DisruptionPolicies keep workloads running that would have to leave, with the ends.

    Shape: ``promised`` is when the workload starts at the latest because room is kept for it, in
    seconds since the epoch; None if none is.
    """

    words: str
    promised: int | None = None

    def __str__(self) -> str:
        return self.words


class Explanation(Value, frozen=True, kw_only=True, gc=False):
    """Why a workload is pending.

    Shape: ``cluster_queue`` is "" if the LocalQueue names no known one; ``pod_sets`` has the pod
    sets that did not fit; ``note`` is the text before theirs, or the whole text. If ``cause`` is
    None, the reason follows from the pod sets. ``victims`` counts the workloads that leave for
    this one; with fair sharing, ``share_loss`` says why no workload does, and ``held_back`` does so
    where a DisruptionPolicy keeps them running. ``is_gated`` means that
    other workloads would have to leave, and that a gate keeps this one from preempting them
    (E-74). ``taken_by`` are the workloads that took the room earlier in the same cycle; the message
    does not name them, because tools read upstream's words there.
    """

    workload: str
    cluster_queue: str
    cause: Reason | None = None
    note: str = ""
    pod_sets: tuple[PodSetExplanation, ...] = ()
    victims: int = 0
    share_loss: ShareLoss | None = None
    held_back: HeldBack | None = None
    is_gated: bool = False
    taken_by: tuple[str, ...] = ()

    @property
    def reason(self) -> Reason:
        """The reason of the QuotaReserved=False condition."""
        return reason_of(self.pod_sets) if self.cause is None else self.cause

    @property
    def message(self) -> str:
        """The message of the QuotaReserved=False condition."""
        words = ": ".join(part for part in (self.note, words_of(self.pod_sets)) if part)
        if self.held_back is not None:
            return f"{words}; {self.held_back}"
        if self.share_loss is not None:
            return f"{words}. {self.share_loss}"
        if not self.victims:
            return words
        return f"{words}. Pending the preemption of {self.victims} workload(s)"


def words_of(pod_sets: Sequence[PodSetExplanation]) -> str:
    """Join the messages of the pod sets' refusals."""
    return "; ".join(str(pod_set) for pod_set in pod_sets)


def reason_of(pod_sets: Iterable[PodSetExplanation]) -> Reason:
    """Return the most severe reason over the pod sets."""
    return _most_severe(pod_set.reason for pod_set in pod_sets)


def _most_severe(reasons: Iterable[Reason]) -> Reason:
    return max(reasons, key=SEVERITY.__getitem__, default=Reason.NO_MATCHING_FLAVOR)
