"""Restrict a plugin's process before any of the plugin's code runs.

Called by `child`. If the kernel lacks a restriction, the process reports it and runs anyway. Time
budget, memory limit and separate address space work everywhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from multiqueue.dispatcher_host.isolation import landlock, seccomp
from multiqueue.lib.words import words

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_FILES, _CALLS = "files", "network, copies of itself, signals, shared memory"
_MOST_FILES = 256
_NICENESS = 5
"""If processors are scarce, the manager has precedence."""
_SYSTEM_PATHS = words(
    "/usr /lib /lib64 /etc/ld.so.cache /etc/localtime /proc/self /proc/cpuinfo "
    "/proc/meminfo /sys/devices/system/cpu /dev/null /dev/urandom"
)
"""Paths that libraries read outside of Python's folders; none of them is secret."""


def limit(memory: int) -> None:
    """Limit the resources of the process, and let it end when its parent ends.

    Args:
        memory: Bytes of address space; 0: no limit.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if most == resource.RLIM_INFINITY else min(_MOST_FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    os.nice(_NICENESS)
    if sys.platform != "linux":
        return
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # If the manager has already ended, this process ends when it reads from its socket.
    open_libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with contextlib.suppress(OSError):  # if the container is out of memory, this is killed first
        Path("/proc/self/oom_score_adj").write_text("1000")


def shut_in() -> tuple[str, ...]:
    """Keep files, network and other processes out of reach of this process.

    Returns:
        Restrictions that could not be applied, in words.
    """
    if sys.platform != "linux":
        return list_open_ways()
    libc = open_libc()
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    missing = list(list_open_ways())
    closing = (
        (_FILES, landlock.why_not, partial(landlock.keep_to, libc, _list_readable())),
        (_CALLS, seccomp.why_not, partial(seccomp.take_calls, libc)),
    )
    for what, why_not, close in closing:
        if why_not(libc):
            continue
        try:
            close()
        except OSError as error:
            missing.append(f"{what}: {error}")
    return tuple(missing)


def list_open_ways() -> tuple[str, ...]:
    """Return the restrictions that this machine's kernel does not support, in words."""
    if sys.platform != "linux":
        return (f"{_FILES}, {_CALLS}: that needs Linux",)
    libc = open_libc()
    found = ((_FILES, landlock.why_not(libc)), (_CALLS, seccomp.why_not(libc)))
    return tuple(f"{what}: {why}" for what, why in found if why)


def _list_readable() -> Iterator[str]:
    yield from _SYSTEM_PATHS
    yield from {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    yield from (path for path in sys.path if path)
    # setuptools lists the folders of editable installs in such modules, not in sys.path.
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            yield from getattr(module, "MAPPING", {}).values()


def open_libc() -> ctypes.CDLL:
    """Return the C library of this process; it keeps `errno` after each call."""
    return ctypes.CDLL(None, use_errno=True)
