"""The state of a connection to a worker, for those that only ask for it."""

from __future__ import annotations

from enum import Enum


class ConnectionState(Enum):
    """The state of a connection."""

    CONNECTING = "Connecting"
    CONNECTED = "Connected"
    DISCONNECTED = "Disconnected"
    REFUSED = "Refused"
    """There is no kubeconfig that may be used."""
