"""Forbid a process, permanently, all system calls that reach beyond the process.

Without other processes there is one address space, and its limit bounds all memory of the plugin.
Calls that hold memory elsewhere (shared memory, files in memory, message queues, keys) are
forbidden too. Threads are allowed. Without ``socket`` there is no network, even if the kernel's
Landlock cannot forbid it. Uses seccomp of the Linux kernel, which needs no privileges. On
architectures that are not listed, the process is not restricted.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from types import MappingProxyType

_PR_GET_SECCOMP, _PR_SET_SECCOMP, _MODE_FILTER = 21, 22, 2
LOAD, IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, _ARCHITECTURE_AT, _FIRST_AT, _SECOND_AT = 0, 4, 16, 24
ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_REFUSED, ABSENT = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
_X32 = 0x40000000
"""On x86, numbers from here on are other numbers of the same calls."""
_THREAD = 0x00010000
"""``CLONE_THREAD``."""
_OWNERS = (8, 15, 0x8901, 0x8902)
"""``F_SETOWN``, ``F_SETOWN_EX``, ``FIOSETOWN``, ``SIOCSPGRP``: they set who gets a signal when
there is something to read."""
_ARCHITECTURES = MappingProxyType({"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)})
"""For each architecture: its column in the tables, and its code."""

_TAKEN = MappingProxyType(
    {
        # network
        "socket": (41, 198),
        "io_uring_setup": (425, 425),
        # new processes and programs, and process groups that would not end with this one
        "fork": (57, None),
        "vfork": (58, None),
        "execve": (59, 221),
        "execveat": (322, 281),
        "setsid": (112, 157),
        "setpgid": (109, 154),
        "unshare": (272, 97),
        "setns": (308, 268),
        # other processes, above all the manager
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "pidfd_open": (434, 434),
        "pidfd_getfd": (438, 438),
        "pidfd_send_signal": (424, 424),
        "tkill": (200, 130),
        "rt_sigqueueinfo": (129, 138),
        "rt_tgsigqueueinfo": (297, 240),
        "setpriority": (141, 140),
        "ioprio_set": (251, 30),
        "migrate_pages": (256, 238),
        "move_pages": (279, 239),
        "perf_event_open": (298, 241),
        "bpf": (321, 280),
        # memory outside of any address space
        "shmget": (29, 194),
        "semget": (64, 190),
        "msgget": (68, 186),
        "mq_open": (240, 180),
        "memfd_create": (319, 279),
        "memfd_secret": (447, 447),
        "add_key": (248, 217),
        "keyctl": (250, 219),
        "userfaultfd": (323, 282),
    }
)
"""Forbidden calls; numbers on x86-64 and arm64."""
_OF_ITSELF = MappingProxyType(
    {
        "prlimit64": (302, 261),
        "sched_setparam": (142, 118),
        "sched_setscheduler": (144, 119),
        "sched_setaffinity": (203, 122),
        "sched_setattr": (314, 274),
    }
)
"""Calls that a process may only apply to itself (first argument 0). A limit of processor time
would otherwise end the manager."""
_TO_ITSELF = MappingProxyType({"kill": (62, 129), "tgkill": (234, 131)})
"""Calls whose first argument must be the number of this process."""
_OF_HANDLES = MappingProxyType({"fcntl": (72, 25), "ioctl": (16, 29)})
_CLONE, _CLONE3 = (56, 220), (435, 435)


class FilterStep(ctypes.Structure):
    """One instruction of a filter (`struct sock_filter`)."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("then", ctypes.c_uint8),
        ("otherwise", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class FilterProgram(ctypes.Structure):
    """A whole filter (`struct sock_fprog`)."""

    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(FilterStep)))


def why_not(libc: ctypes.CDLL) -> str:
    """Return why seccomp cannot be used here; empty if it can."""
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        return f"not known how for {machine}"
    return "the kernel has no seccomp" if libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) < 0 else ""


def take_calls(libc: ctypes.CDLL) -> None:
    """Forbid these calls in this process and all its future threads.

    The calling thread must have given up gaining privileges (``PR_SET_NO_NEW_PRIVS``).

    Args:
        libc: The C library, opened with ``use_errno``.

    Raises:
        OSError: The kernel refuses.
    """
    steps = list(_build_steps(*_ARCHITECTURES[os.uname().machine], own=os.getpid()))
    program = FilterProgram(len(steps), (FilterStep * len(steps))(*steps))
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {os.strerror(code)}")


def _build_steps(column: int, code: int, *, own: int) -> Iterator[FilterStep]:
    """Yield the filter; the first matching rule applies.

    A filter cannot see the arguments of ``clone3``. If the call appears to be missing, the C
    library uses ``clone`` instead.
    """
    yield FilterStep(LOAD, 0, 0, _ARCHITECTURE_AT)
    yield from _unless(IF_EQUAL, code, _KILL)
    yield FilterStep(LOAD, 0, 0, NUMBER_AT)
    yield from answer_when(_IF_AT_LEAST, _X32, _REFUSED)
    for numbers in _TAKEN.values():
        if (number := numbers[column]) is not None:
            yield from answer_when(IF_EQUAL, number, _REFUSED)
    yield from answer_when(IF_EQUAL, _CLONE3[column], ABSENT)
    yield from _look(_CLONE[column], _FIRST_AT, _unless(_IF_ANY_BIT, _THREAD, _REFUSED))
    for numbers in _OF_ITSELF.values():
        yield from _look(numbers[column], _FIRST_AT, _unless(IF_EQUAL, 0, _REFUSED))
    for numbers in _TO_ITSELF.values():
        yield from _look(numbers[column], _FIRST_AT, _unless(IF_EQUAL, own, _REFUSED))
    for numbers in _OF_HANDLES.values():
        checks = [step for value in _OWNERS for step in answer_when(IF_EQUAL, value, _REFUSED)]
        yield from _look(numbers[column], _SECOND_AT, checks)
    yield FilterStep(RETURN, 0, 0, ALLOW)


def _look(call: int, at: int, checks: list[FilterStep]) -> Iterator[FilterStep]:
    """Allow a call if its argument passes the checks."""
    rest = [FilterStep(LOAD, 0, 0, at), *checks, FilterStep(RETURN, 0, 0, ALLOW)]
    yield FilterStep(IF_EQUAL, 0, len(rest), call)
    yield from rest


def answer_when(test: int, value: int, answer: int) -> list[FilterStep]:
    """Return the steps that give the answer if the loaded value passes the test."""
    return [FilterStep(test, 0, 1, value), FilterStep(RETURN, 0, 0, answer)]


def _unless(test: int, value: int, answer: int) -> list[FilterStep]:
    return [FilterStep(test, 1, 0, value), FilterStep(RETURN, 0, 0, answer)]
