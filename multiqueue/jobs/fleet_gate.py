"""How MultiKueue tells the engine's shell what workers can hold: siblings may not know each other.

MultiKueue connects an oracle and says when its answers may have changed; whoever feeds the engine
asks and listens.
"""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.engine.remote import ChosenFlavors, FleetOracle, Impossible
from multiqueue.model.workload import Workload


class FleetGate:
    """Between who knows the workers and who reserves quota. Without an oracle all is possible."""

    def __init__(self) -> None:
        self._oracle: FleetOracle | None = None
        self._listeners: list[Callable[[], None]] = []

    def connect(self, oracle: FleetOracle) -> None:
        """Ask this from now on."""
        self._oracle = oracle

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
