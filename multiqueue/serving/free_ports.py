"""Ports for servers that another process starts a moment later."""

from __future__ import annotations

import contextlib
import socket
from random import SystemRandom

_PORTS = range(20_000, 32_000)
"""Ports that no system gives to outgoing connections; Linux begins at 32768."""


def find_free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return different ports that nobody uses.

    Raises:
        OSError: so many are not free.
    """
    found: list[int] = []
    for port in SystemRandom().sample(_PORTS, len(_PORTS)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((host, port))
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"{host}: {count} ports between {_PORTS.start} and {_PORTS.stop} are not free")
