"""A cluster that could take a Workload, as dispatchers compare them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from multiqueue.plugins.capacity import Fit
from multiqueue.plugins.forecast import Forecast
from multiqueue.plugins.view import ClusterView, CopyState


class Tier(IntEnum):
    """How soon, and at whose cost, a cluster could start the Workload; smaller is better."""

    SOON = 0
    """Room, also lent, or a start within the time that the dispatcher may wait."""
    FIT = 1
    BORROW = 2
    PREEMPT = 3
    PERHAPS = 4
    WAIT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A cluster that could take the Workload.

    Attributes:
        cluster: It.
        fit: How its queue and hardware suit.
        forecast: What would become of the Workload there.
        scarce: The resource that matters to the Workload (`scarce_resource`).
        flavors: Those that it would get that from; all that have it, where that is not known.
        tier: As that says; `Tier.WAIT` for one that disappointed lately.
        disappointed: Whether it had the Workload lately and did not start it in time.
        kept_for: Who comes first in line, and would start later if this one took room there; words.
    """

    cluster: ClusterView
    fit: Fit
    forecast: Forecast
    scarce: str
    flavors: tuple[str, ...]
    tier: Tier
    disappointed: bool = False
    kept_for: str = ""

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return self.cluster.name

    @property
    def holds(self) -> bool:
        """Whether the Workload holds quota there."""
        return self.cluster.copy is CopyState.RESERVED
