"""Ports for servers of which several are started at the same time."""

from __future__ import annotations

import os
import threading

from multiqueue.serving.free_ports import find_free_ports

_given: set[int] = set()
_choosing = threading.Lock()


def find_own_ports(count: int) -> list[int]:
    """Return free ports that nobody else gets: no thread, nor a process of the same test run.

    Of three processes, the first one takes the ports that three divides, and so on.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    with _choosing:
        some = find_free_ports(processes * (8 * count + 16))
        free = [each for each in some if each % processes == number]
        own = [each for each in free if each not in _given][:count]
        _given.update(own)
    assert len(own) == count
    return own
