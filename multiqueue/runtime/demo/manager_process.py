"""The manager of the demo: a process as a user would start it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

STOP_SECONDS = 10.0
"""How long the process gets to release its Lease before it is killed."""


class ManagerProcess:
    """Starts the manager once and watches it; whoever wants another starts it by `command_line`.

    Attributes:
        log: File that gets everything it prints.
        exited: Set when it has ended, by itself or by others.
    """

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        self.command = list(command)
        self.log = log
        self.exited = asyncio.Event()
        self.exit_text = ""
        self._process: asyncio.subprocess.Process | None = None

    @property
    def command_line(self) -> str:
        """The command, ready for a shell."""
        return shlex.join(self.command)

    @property
    def pid(self) -> int | None:
        """Of the process, once it runs."""
        return self._process.pid if self._process else None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The process runs inside of this, unless it ends by itself."""
        with self.log.open("ab") as output:
            process = self._process = await asyncio.create_subprocess_exec(
                *_ending_with_us(),
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C belongs to the demo, which stops the manager before the clusters.
                start_new_session=True,
            )
        watcher = asyncio.create_task(self._watch(process))
        try:
            yield
        finally:
            await self._stop(process)
            await watcher

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self.exit_text = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self.exited.set()

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _ending_with_us() -> list[str]:
    """Where the machine has it: let the kernel stop the manager if the demo is killed outright.

    Without its clusters it would only wait for them, for ever.
    """
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "TERM", "--"] if program else []
