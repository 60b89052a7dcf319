"""The state of an informer, for those that only ask for it."""

from __future__ import annotations

from enum import Enum


class InformerState(Enum):
    """The state of an informer's connection."""

    STARTING = "Starting"
    WATCHING = "Watching"
    RETRYING = "Retrying"
    UNAVAILABLE = "Unavailable"
