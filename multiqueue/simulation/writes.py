"""What the manager asked of API servers for one Workload."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Writes:
    """Counts of one Workload's life.

    Attributes:
        local: Writes to the manager's API server.
        remote: Writes to workers.
        copies: Copies that were made on workers.
    """

    local: int = 0
    remote: int = 0
    copies: int = 0
