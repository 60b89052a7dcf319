"""Whether another cluster would take what runs on a worker, in a word."""

from __future__ import annotations

from enum import Enum


class Chance(Enum):
    """Whether another cluster would take a Workload."""

    NOW = "Now"
    ROOM = "Room"
    """A cluster can hold it, once it has room."""
    MEND = "Mend"
    """A cluster might, once somebody mends something: a connection, a queue, a restriction."""
    NEVER = "Never"
