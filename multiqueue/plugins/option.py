"""A cluster that could take a Workload, in the form in which dispatchers compare clusters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from multiqueue.plugins.capacity import Fit
from multiqueue.plugins.forecast import Forecast
from multiqueue.plugins.view import ClusterView, CopyState


class Tier(IntEnum):
    """How soon, and at whose cost, a cluster could start the Workload; smaller is better."""

    SOON = 0
    """The Workload fits (borrowing included), or starts within the time the dispatcher may wait."""
    FIT = 1
    """It fits now, within the queue's own quota."""
    BORROW = 2
    """It fits now, on quota that other queues lend."""
    PREEMPT = 3
    """It starts once other Workloads are stopped."""
    PERHAPS = 4
    """The queues of the cluster cannot be read, so nothing is known."""
    WAIT = 5
    """It waits there until room becomes free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A cluster that could take the Workload.

    Attributes:
        cluster: The cluster.
        fit: How well its queue and hardware suit the Workload.
        forecast: The forecast of the Workload on this cluster.
        scarce: The Workload's scarce resource (`scarce_resource`).
        flavors: Flavors from which the Workload would get the scarce resource. If the forecast does
            not say, all flavors that have it.
        tier: The tier of the cluster; `Tier.WAIT` if it failed to start the Workload lately.
        disappointed: Whether it had the Workload lately and did not start it in time.
        kept_for: The Workload that is ahead in the global queue and would start later if this one
            took room on the cluster; a text for users.
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
