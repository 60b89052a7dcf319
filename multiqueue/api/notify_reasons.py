"""What people may be told of about a job, and how the annotation names it. Pure."""

from __future__ import annotations

from enum import StrEnum


class NotifyReason(StrEnum):
    """What happened to a job. Parity: S-164."""

    ADMITTED = "admitted"
    """It has quota, and its admission checks have passed."""
    STARTED = "started"
    """All of its pods are ready."""
    EVICTED = "evicted"
    """It was stopped, and waits again or was deactivated."""
    FINISHED = "finished"
    """It ended well."""
    FAILED = "failed"
    LATE = "late"
    """It still waits after the time by which it was expected to start."""


def parse_notify(text: str) -> frozenset[NotifyReason]:
    """Read ``multiqueue.dev/notify``: reasons, separated by commas.

    Raises:
        ValueError: A reason is unknown.
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    known = set(NotifyReason)
    for name in names:
        if name not in known:
            raise ValueError(f'"{name}" is unknown; choose from {", ".join(NotifyReason)}')
    return frozenset(map(NotifyReason, names))
