"""Takes system calls from a process for good: those by which it would reach beyond itself.

Without ``setsid`` and ``setpgid`` all that it starts stays in its process group and ends with it;
without ``socket`` it has no network, whatever the kernel's Landlock can do. Seccomp of the Linux
kernel, which needs no rights. Architectures that are not listed leave the process as it is.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import NamedTuple

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_X32 = 0x40000000
"""Numbers from there on are other names of the same calls, on x86."""


class _Architecture(NamedTuple):
    """Its code, the calls that are taken, and the number of ``prlimit64``."""

    code: int
    taken: tuple[int, ...]
    limit: int


_ARCHITECTURES = {
    # socket, ptrace, setpgid, setsid, unshare, setns, process_vm_readv, process_vm_writev,
    # io_uring_setup, pidfd_getfd
    "x86_64": _Architecture(0xC000003E, (41, 101, 109, 112, 272, 308, 310, 311, 425, 438), 302),
    "aarch64": _Architecture(0xC00000B7, (198, 117, 154, 157, 97, 268, 270, 271, 425, 438), 261),
}


class _Step(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("then", ctypes.c_uint8),
        ("otherwise", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(_Step)))


def take_calls(libc: ctypes.CDLL) -> bool:
    """Have these calls fail in this process and all that it starts.

    The calling thread may gain no rights any more (``PR_SET_NO_NEW_PRIVS``).

    Args:
        libc: The C library, opened with ``use_errno``.

    Returns:
        Whether that is known for this architecture.

    Raises:
        OSError: the kernel refuses.
    """
    architecture = _ARCHITECTURES.get(os.uname().machine)
    if architecture is None:
        return False
    steps = _build_steps(architecture)
    program = _Program(len(steps), (_Step * len(steps))(*steps))
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {os.strerror(code)}")
    return True


def _build_steps(architecture: _Architecture) -> list[_Step]:
    """Return the filter; jumps count the steps that are left out.

    Limits may be set of nobody but the caller, whose number is 0 there: one of the manager's
    processor time would end it.
    """
    calls = architecture.taken
    return [
        _Step(_LOAD, 0, 0, _ARCHITECTURE_AT),
        _Step(_IF_EQUAL, 1, 0, architecture.code),
        _Step(_RETURN, 0, 0, _KILL),
        _Step(_LOAD, 0, 0, _NUMBER_AT),
        _Step(_IF_AT_LEAST, len(calls) + 4, 0, _X32),
        *(_Step(_IF_EQUAL, len(calls) + 3 - index, 0, call) for index, call in enumerate(calls)),
        _Step(_IF_EQUAL, 0, 2, architecture.limit),
        _Step(_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        _Step(_IF_EQUAL, 0, 1, 0),
        _Step(_RETURN, 0, 0, _ALLOW),
        _Step(_RETURN, 0, 0, _FAIL),
    ]
