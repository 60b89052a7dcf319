"""Counts of the manager's writes for one Workload."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Writes:
    """Counts over the life of one Workload.

    Attributes:
        local: Writes to the manager's API server.
        remote: Writes to workers.
        copies: Number of copies made on workers.
    """

    local: int = 0
    remote: int = 0
    copies: int = 0
