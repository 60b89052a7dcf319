"""`multiqueue` as users start it: each command in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

STARTUP_SECONDS = 60


@contextlib.contextmanager
def running(
    *arguments: str, log: Path, source: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `multiqueue` with these arguments; ends it, and only it, on leaving.

    ``source``: the folder of another version of the program, which is run instead.
    """
    path = {"PYTHONPATH": f"{source}:{source / 'dispatchers'}"} if source else {}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "multiqueue", *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=source,
            env={**os.environ, **path, "PYTHONUNBUFFERED": "1"},
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


def wait_for_text(process: subprocess.Popen[bytes], log: Path, pattern: str) -> re.Match[str]:
    """Wait until the process has printed the pattern."""
    for _ in range(STARTUP_SECONDS * 20):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            break
    pytest.fail(f"no {pattern!r} in the output of {process.args}:\n{log.read_text()[-4000:]}")
