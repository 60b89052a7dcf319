"""Listening sockets, on one address or on all addresses of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import Any

BACKLOG = 128
_NO_SUCH_FAMILY = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


async def bind(host: str, port: int) -> list[socket.socket]:
    """Listen; an empty host means all IPv4 and IPv6 addresses. Port 0 takes a free one.

    Raises:
        OSError: the port is taken, or the host is not an address of this machine.
    """
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    addresses = dict.fromkeys((family, to) for family, _, _, _, to in found)
    with contextlib.ExitStack() as undo:
        listening = _listen_on_all(list(addresses), port, undo)
        undo.pop_all()
    return listening


def _listen_on_all(
    addresses: list[tuple[int, tuple[Any, ...]]], port: int, undo: contextlib.ExitStack
) -> list[socket.socket]:
    listening: list[socket.socket] = []
    failure: OSError | None = None
    for family, address in addresses:
        try:
            each = undo.enter_context(_listen(family, (address[0], port, *address[2:])))
        except OSError as error:
            if error.errno not in _NO_SUCH_FAMILY:
                raise
            failure = error  # a machine may have only one family
            continue
        listening.append(each)
        port = each.getsockname()[1]
    if failure is not None and not listening:
        raise failure
    return listening


def _listen(family: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
