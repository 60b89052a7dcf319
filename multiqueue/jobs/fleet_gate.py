"""How MultiKueue tells the engine's shell what workers can hold: siblings may not know each other.

MultiKueue connects an oracle and says when its answers may have changed; whoever feeds the engine
asks and listens. Whoever writes reservations has it say what is to be written beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext

from multiqueue.api import v1beta2 as api
from multiqueue.engine.remote import ChosenFlavors, FleetOracle, Impossible
from multiqueue.model.workload import Workload

Amend = Callable[[api.WorkloadStatus], api.WorkloadStatus]
"""Adds to a status that reserves quota what belongs into the same write."""
Offer = Callable[[api.Workload], AbstractAsyncContextManager[Amend]]
"""Given a Workload as it will be with its quota; what it gives is written within its block."""
Concerns = Callable[[Collection[str]], bool]
"""Given the names of admission checks: whether an offer belongs to one of them."""


def unchanged(status: api.WorkloadStatus) -> api.WorkloadStatus:
    """Add nothing."""
    return status


class FleetGate:
    """Between who knows the workers and who reserves quota. Without an oracle all is possible."""

    def __init__(self) -> None:
        self._oracle: FleetOracle | None = None
        self._offer: Offer | None = None
        self._concerns: Concerns = lambda _: False
        self._listeners: list[Callable[[], None]] = []

    def connect(self, oracle: FleetOracle) -> None:
        """Ask this from now on."""
        self._oracle = oracle

    def connect_offers(self, offer: Offer, concerns: Concerns) -> None:
        """Have this say where a Workload goes that gets quota."""
        self._offer, self._concerns = offer, concerns

    def may_offer(self, checks: Collection[str]) -> bool:
        """Whether a reservation with these checks may have to wait for an offer."""
        return self._concerns(checks)

    def offer(self, reserved: api.Workload) -> AbstractAsyncContextManager[Amend]:
        """Answer as `Offer` does."""
        return nullcontext(unchanged) if self._offer is None else self._offer(reserved)

    @property
    def is_connected(self) -> bool:
        """Whether this program sends Workloads to workers at all."""
        return self._oracle is not None

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this whenever answers may have changed."""
        self._listeners.append(listener)

    def tell_change(self) -> None:
        """Tell that answers may have changed."""
        for listener in self._listeners:
            listener()

    def ask(self, workload: Workload, check: str, flavors: ChosenFlavors) -> Impossible | None:
        """Answer as `FleetOracle` does."""
        return None if self._oracle is None else self._oracle(workload, check, flavors)
