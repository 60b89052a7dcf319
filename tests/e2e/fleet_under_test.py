"""What the steps need of a fleet, whatever it is made of: bare control planes, or kind.

Everything else they do with kubectl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from multiqueue.api.names import DEFAULT_NAMESPACE

SYSTEM = DEFAULT_NAMESPACE
MANAGER_USER = f"system:serviceaccount:{SYSTEM}:kueue-controller-manager"
REMOTE_USER = f"system:serviceaccount:{SYSTEM}:multikueue-manager"
"""Who a manager is at home, and on its workers."""


class Cluster(Protocol):
    """A cluster, as its administrator has it."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        ...

    @property
    def outages(self) -> Sequence[tuple[datetime, datetime]]:
        """From when to when it did not answer."""
        ...

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl; answers what it prints, or raises CalledProcessError."""
        ...

    def read_audit_log(self) -> str:
        """Return the API server's audit log: an event a line; also while it is down."""
        ...

    def outage(self) -> AbstractContextManager[None]:
        """Kill API server and etcd at once; they are back after the block."""
        ...


class ManagerProgram(Protocol):
    """The manager's program while it runs."""

    def kill(self) -> None:
        """End it at once: it gets to do nothing more."""
        ...

    def read_troubles(self) -> list[str]:
        """Return what its log has beyond the normal course of things."""
        ...


class FleetUnderTest(Protocol):
    """A manager and two equal workers, registered under their names; no program runs."""

    @property
    def manager(self) -> Cluster:
        """Where jobs are submitted."""
        ...

    @property
    def workers(self) -> Mapping[str, Cluster]:
        """Where they run: two or more GPU nodes whose pods do as their annotations say."""
        ...

    def running(self, **settings: Any) -> AbstractContextManager[ManagerProgram]:
        """Run the manager's program, ready when the block begins, ended after it.

        Args:
            settings: Sections of its Configuration that replace those that are shipped.
        """
        ...
