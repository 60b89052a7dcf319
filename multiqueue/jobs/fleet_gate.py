"""What the controllers ask about workers, as a protocol: they may not import `dispatch`.

`controllers` reserves quota; `dispatch` knows which workers could run a Workload. Both know this
protocol, and the assembly hands one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from multiqueue.api import v1beta2 as api
from multiqueue.engine.remote import ChosenFlavors, Impossible
from multiqueue.kube.client import KubeClient
from multiqueue.model.workload import Workload

Amend = Callable[[api.WorkloadStatus], api.WorkloadStatus]
"""Adds to a status with a quota reservation what must be in the same write."""


def unchanged(status: api.WorkloadStatus) -> api.WorkloadStatus:
    """Return the status as it is."""
    return status


class FleetGate(Protocol):
    """What the workers could hold, and where a Workload is offered first."""

    def ask(self, workload: Workload, check: str, flavors: ChosenFlavors) -> Impossible | None:
        """Answer as `multiqueue.engine.remote.FleetOracle` does."""
        ...

    def may_offer(self, checks: Collection[str]) -> bool:
        """Whether a reservation with these admission checks may have to wait for an offer."""
        ...

    def offer(self, reserved: api.Workload) -> AbstractAsyncContextManager[Amend]:
        """Choose the workers to which a Workload that gets quota is offered first.

        Args:
            reserved: The Workload with its new reservation. It is written within the block.
        """
        ...

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this whenever the answers of `ask` may have changed."""
        ...

    def follow_checkpoints(self, listener: Callable[[str, str], None]) -> None:
        """Call this with the uid of a job and the time of its last checkpoint on a worker."""
        ...

    async def annotate_job(self, workload: api.Workload, notes: Mapping[str, str | None]) -> bool:
        """Change annotations of a job on its worker; return whether that could be reached."""
        ...

    def find_client(self, cluster: str) -> KubeClient | None:
        """Return the client of a worker; None while it is out of reach."""
        ...


class NoFleet:
    """The gate of a manager that sends nothing to workers: nothing is impossible."""

    def ask(self, workload: Workload, check: str, flavors: ChosenFlavors) -> None:
        """Return None: nothing is impossible."""

    def may_offer(self, checks: Collection[str]) -> bool:
        """Return False: no reservation waits for an offer."""
        return False

    def offer(
        self,
        reserved: api.Workload,
    ) -> AbstractAsyncContextManager[Amend]:
        """Return a block that adds nothing."""
        return nullcontext(unchanged)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Ignore the listener: the answers never change."""

    def follow_checkpoints(self, listener: Callable[[str, str], None]) -> None:
        """Ignore the listener: no job runs on a worker."""

    async def annotate_job(
        self,
        workload: api.Workload,
        notes: Mapping[str, str | None],
    ) -> bool:
        """Return False: there is no worker."""
        return False

    def find_client(self, cluster: str) -> None:
        """Return None: there is no worker."""
