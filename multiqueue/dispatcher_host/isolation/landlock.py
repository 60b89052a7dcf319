"""Restrict a process to its own code: no other files, no TCP, no signals to others.

Uses Landlock of the Linux kernel (5.13; TCP since 6.7, signals and abstract sockets since 6.12),
which needs no privileges. Files that are already open stay open. Without Landlock in the kernel,
the process is not restricted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""System call numbers; the same on every architecture."""
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_ACCESS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Landlock version -> all file accesses that it can forbid."""
_TCP_VERSION, _TCP = 4, 0b11
_SCOPE_VERSION, _SCOPES = 6, 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("folder", ctypes.c_int32))


def find_version(libc: ctypes.CDLL) -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    return max(0, int(libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def why_not(libc: ctypes.CDLL) -> str:
    """Return why Landlock cannot be used here; empty if it can."""
    return "" if find_version(libc) else "the kernel has no Landlock (Linux 5.13)"


def keep_to(libc: ctypes.CDLL, readable: Iterable[str]) -> None:
    """Restrict this process and its children to reading the given files and folders.

    The calling thread must have given up gaining privileges (``PR_SET_NO_NEW_PRIVS``).

    Args:
        libc: The C library, opened with ``use_errno``.
        readable: Readable paths; those that do not exist are left out.

    Raises:
        OSError: The kernel refuses, or has no Landlock.
    """
    version = find_version(libc)
    ruleset = _Ruleset(
        files=_FILE_ACCESS[max(each for each in _FILE_ACCESS if each <= version)],
        network=_TCP if version >= _TCP_VERSION else 0,
        scopes=_SCOPES if version >= _SCOPE_VERSION else 0,
    )
    rules = _call(libc, _CREATE_RULESET, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)
    try:
        for path in readable:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _allow(libc, rules, path)
        _call(libc, _RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        access = _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)  # noqa: PTH112 - as given
        rule = _PathRule(access=access, folder=handle)
        _call(libc, _ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(handle)


def _call(libc: ctypes.CDLL, number: int, *arguments: Any) -> int:
    full = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    result = int(libc.syscall(ctypes.c_long(number), *full))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return result
