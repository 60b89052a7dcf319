"""Ports for servers of which several are started at the same time."""

from __future__ import annotations

import os
import threading

from multiqueue.serving.free_ports import find_free_ports

_given: set[int] = set()
_choosing = threading.Lock()


def find_own_ports(count: int) -> list[int]:
    """Return free ports that nobody else gets: no thread, nor a process of the same test run.

    Processes of a run have even or odd ports; three share a server, and start none.
    """
    part = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2
    with _choosing:
        free = [each for each in find_free_ports(8 * count + 16) if each % 2 == part]
        own = [each for each in free if each not in _given][:count]
        _given.update(own)
    assert len(own) == count
    return own
