"""Typed refusals: what a flavor lacks, or what about it does not fit, with the numbers.

The search for flavors records them; the text is made only when somebody reads it (E-59).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2.meta import Taint
from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.lib.amount import Amount, add, subtract
from multiqueue.model.resources import format_amount


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
class OtherFlavorThanBefore:
    """The slice to replace has another flavor, and its pods keep running there (E-167)."""

    flavor: str
    original: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return (
            f"could not assign {self.flavor} flavor since the original workload is assigned: "
            f"{self.original}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSlice:
    """The pods of the slice to replace are placed in a topology."""

    flavor: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return (
            f"Flavor {self.flavor} has a topology, where elastic jobs keep their size while they"
            " run"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyMismatch:
    """The pods request a topology that the flavor lacks, or none if it has one (E-62)."""

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
    """The node selector or affinity of the pods is invalid."""

    flavor: str
    detail: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return f"node affinity cannot be matched with flavor {self.flavor}: {self.detail}"


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
class TopologyLevelMissing:
    """The topology of the flavor lacks a level that the pods request (E-62)."""

    flavor: str

    @property
    def reason(self) -> Reason:
        """Waiting does not help."""
        return Reason.NO_MATCHING_FLAVOR

    def __str__(self) -> str:
        return f'Flavor "{self.flavor}" does not contain the requested level'


class NoClusterHolds(NamedTuple):
    """No cluster that would run the pods can ever hold them on hardware of the flavor."""

    flavor: str
    reason: Reason
    words: str

    def __str__(self) -> str:
        return f"{self.words} (flavor {self.flavor})"


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
    | NoClusterHolds
    | OtherFlavorThanBefore
    | PlacedSlice
)
