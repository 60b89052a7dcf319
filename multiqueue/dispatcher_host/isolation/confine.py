"""Takes from a plugin's process what it does not need, before any code of the plugin runs.

Called by `child`. Where a kernel cannot keep something away, the process says so and runs all
the same: time budget, memory and its own address space hold everywhere.
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

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_FILES, _CALLS = "files", "network, copies of itself, signals, shared memory"
_MOST_FILES = 256
_NICENESS = 5
"""The manager comes first where processors are short."""
_SYSTEM_PATHS = (
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/dev/null",
    "/dev/urandom",
)
"""What libraries read beside Python's own folders; nothing of it is anybody's secret."""


def limit(memory: int) -> None:
    """Bound what the process may use, and have it end with the one that started it.

    Args:
        memory: Bytes of address space; 0: as much as there is.
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
    # Where the manager ended before this, reading from it ends the process.
    _open_libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with contextlib.suppress(OSError):  # the first to go where the container's memory is short
        Path("/proc/self/oom_score_adj").write_text("1000")


def shut_in() -> tuple[str, ...]:
    """Keep the process to its own code: files, network, and other processes are out of reach.

    Returns:
        What could not be kept away, in words.
    """
    if sys.platform != "linux":
        return list_open_ways()
    libc = _open_libc()
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
    """Return what the kernel of this machine cannot keep away from a process, in words."""
    if sys.platform != "linux":
        return (f"{_FILES}, {_CALLS}: that needs Linux",)
    libc = _open_libc()
    found = ((_FILES, landlock.why_not(libc)), (_CALLS, seccomp.why_not(libc)))
    return tuple(f"{what}: {why}" for what, why in found if why)


def _list_readable() -> Iterator[str]:
    yield from _SYSTEM_PATHS
    yield from {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    yield from (path for path in sys.path if path)
    # Editable installs of setuptools keep their folders in modules of this name, not in sys.path.
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            yield from getattr(module, "MAPPING", {}).values()


def _open_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
