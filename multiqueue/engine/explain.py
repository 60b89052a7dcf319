"""Why a workload waits: typed refusals with their numbers, and the words that every surface shows.

The cycle records refusals; the words are made only when somebody reads them (E-58, E-59, E-114).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2.meta import Taint
from multiqueue.engine.fairness.drs import ShareLoss
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
"""How hopeless a refusal is (E-58): from "when others make room" to "not in this queue"."""


class Shortfall(NamedTuple):
    """A flavor has too little of a resource.

    A tuple, not a dataclass, like the two classes that hold it: several are made for every head
    that waits, and few are ever read.

    Args:
        flavor: the flavor.
        resource: the resource.
        asked: what the pod set asks for.
        previous: what earlier pod sets of the same workload took from this flavor.
        free: unused quota of the ClusterQueue itself.
        borrowable: what the cohort could lend right now on top.
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
        """How much more quota would have to be free."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UntoleratedTaint:
    """The pods do not tolerate a taint of the flavor's nodes."""

    flavor: str
    taint: Taint

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        taint = f"{self.taint.key} {self.taint.value} {self.taint.effect}"
        return f"untolerated taint {{{taint} <nil>}} in flavor {self.flavor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityMismatch:
    """Node selector or required affinity of the pods excludes the flavor's nodes."""

    flavor: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return f"flavor {self.flavor} doesn't match node affinity"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyMismatch:
    """The pods want a topology that the flavor lacks, or want none where it has one (E-62)."""

    flavor: str
    wanted: bool

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        what = "does not support" if self.wanted else "supports only"
        return f"Flavor {self.flavor} {what} TopologyAwareScheduling"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorNotFound:
    """The ClusterQueue names a flavor that does not exist."""

    flavor: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return f"flavor {self.flavor} not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNotCovered:
    """No resource group of the ClusterQueue has the resource."""

    resource: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return f"resource {self.resource} unavailable in ClusterQueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidPlacement:
    """Node selector or affinity of the pods cannot be understood."""

    flavor: str
    detail: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return f"node affinity cannot be matched with flavor {self.flavor}: {self.detail}"


class TopologyPlacement(NamedTuple):
    """The pods find no place in the topology of a flavor that has quota for them (E-57)."""

    flavor: str
    failure: PlacementFailure

    @property
    def reason(self) -> Reason:
        """Others may leave, or be preempted."""
        return Reason.TOPOLOGY_PLACEMENT_FAILED

    def __str__(self) -> str:
        return self.failure.message


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyLevelMissing:
    """The topology of the flavor lacks a level that the pods ask for (E-62)."""

    flavor: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return f'Flavor "{self.flavor}" does not contain the requested level'


Refusal = (
    Shortfall
    | UntoleratedTaint
    | AffinityMismatch
    | TopologyMismatch
    | TopologyPlacement
    | TopologyLevelMissing
    | FlavorNotFound
    | ResourceNotCovered
    | InvalidPlacement
)


class FlavorAttempt(NamedTuple):
    """One flavor that was looked at, and what it refused. ``flavor`` is "" where none was."""

    flavor: str
    refusals: tuple[Refusal, ...]

    @property
    def reason(self) -> Reason:
        """The most hopeless refusal."""
        return _most_severe(refusal.reason for refusal in self.refusals)


class PodSetExplanation(NamedTuple):
    """Why a pod set got no flavors: one tuple of attempts per resource group that failed."""

    name: str
    pods: int
    groups: tuple[tuple[FlavorAttempt, ...], ...]

    @property
    def reason(self) -> Reason:
        """Per resource group the least severe flavor, over the groups the most severe (E-58)."""
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


class Explanation(Value, frozen=True, kw_only=True, gc=False):
    """Why a workload is pending.

    Shape: ``cluster_queue`` is "" where the LocalQueue leads nowhere; ``pod_sets`` has the pod sets
    that did not fit; ``note`` stands before their words, or alone. ``cause`` is None where the pod
    sets say the reason. ``victims`` counts the workloads that leave for this one; ``share_loss``
    says why with fair sharing nobody does. ``is_gated`` means that others would have to leave, and
    that a gate keeps this one from preempting them (E-74).
    """

    workload: str
    cluster_queue: str
    cause: Reason | None = None
    note: str = ""
    pod_sets: tuple[PodSetExplanation, ...] = ()
    victims: int = 0
    share_loss: ShareLoss | None = None
    is_gated: bool = False

    @property
    def reason(self) -> Reason:
        """The reason of the QuotaReserved=False condition."""
        return reason_of(self.pod_sets) if self.cause is None else self.cause

    @property
    def message(self) -> str:
        """The words of the QuotaReserved=False condition."""
        words = ": ".join(part for part in (self.note, words_of(self.pod_sets)) if part)
        if self.share_loss is not None:
            return f"{words}. {self.share_loss}"
        if not self.victims:
            return words
        return f"{words}. Pending the preemption of {self.victims} workload(s)"


def words_of(pod_sets: Sequence[PodSetExplanation]) -> str:
    """Join what the pod sets were refused."""
    return "; ".join(str(pod_set) for pod_set in pod_sets)


def reason_of(pod_sets: Iterable[PodSetExplanation]) -> Reason:
    """Return the most severe reason over the pod sets."""
    return _most_severe(pod_set.reason for pod_set in pod_sets)


def _most_severe(reasons: Iterable[Reason]) -> Reason:
    return max(reasons, key=SEVERITY.__getitem__, default=Reason.NO_MATCHING_FLAVOR)
