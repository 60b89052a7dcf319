"""Makes this process, for good, one of a machine whose kernel can do less."""

from __future__ import annotations

import ctypes

from multiqueue.dispatcher_host.isolation import seccomp

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER, _PER_LINUX32 = 38, 22, 2, 8
_LANDLOCK_CREATE_RULESET = 444


def lose_landlock() -> None:
    """Have the kernel say that it has no Landlock."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    steps = [
        seccomp.FilterStep(seccomp.LOAD, 0, 0, seccomp.NUMBER_AT),
        *seccomp.answer_when(seccomp.IF_EQUAL, _LANDLOCK_CREATE_RULESET, seccomp.ABSENT),
        seccomp.FilterStep(seccomp.RETURN, 0, 0, seccomp.ALLOW),
    ]
    program = seccomp.FilterProgram(len(steps), (seccomp.FilterStep * len(steps))(*steps))
    assert libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0


def become_another_machine() -> None:
    """Have the machine's name be one that no filter of calls is known for."""
    ctypes.CDLL(None).personality(_PER_LINUX32)
