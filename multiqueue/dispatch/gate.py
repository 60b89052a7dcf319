"""The `FleetGate` of a manager that has workers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager

from multiqueue.api import v1beta2 as api
from multiqueue.capacity.fleet_capacity import FleetCapacity
from multiqueue.dispatch.execute.first_offer import FirstOffers
from multiqueue.engine.remote import ChosenFlavors, Impossible
from multiqueue.jobs.fleet_gate import Amend
from multiqueue.model.workload import Workload


class DispatchGate:
    """Answers from the limits of the workers, and from the first offers.

    Args:
        capacity: What the workers could ever hold.
        offers: Decides to which clusters Workloads that get quota are offered.
    """

    def __init__(self, capacity: FleetCapacity, offers: FirstOffers) -> None:
        self._capacity = capacity
        self._offers = offers

    def ask(self, workload: Workload, check: str, flavors: ChosenFlavors) -> Impossible | None:
        """Return why no cluster of the check can ever hold a Workload on these flavors."""
        return self._capacity.ask(workload, check, flavors)

    def may_offer(self, checks: Collection[str]) -> bool:
        """Whether one of these admission checks is MultiKueue's."""
        return self._offers.concerns(checks)

    def offer(self, reserved: api.Workload) -> AbstractAsyncContextManager[Amend]:
        """Decide to which clusters a Workload that gets quota is offered."""
        return self._offers.offer(reserved)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this whenever the answers of `ask` may have changed."""
        self._capacity.add_listener(listener)
