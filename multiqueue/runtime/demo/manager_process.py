"""The demo's manager, in a process as a user would start it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

LOG_LINES = 8
"""How many lines of its log are shown if it ended."""
STOP_SECONDS = 10.0
"""How long the process has to release its Lease before it is killed."""


class ManagerProcess:
    """Starts the manager once and watches it; users can start another by `command_line`.

    Attributes:
        log: The file that receives its output.
        exited: Set when the process has ended, for any reason.
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
        """The process id, once it runs."""
        return self._process.pid if self._process else None

    def describe_end(self) -> str:
        """Return how the process ended, and the end of its log, once it has ended."""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        shown = "".join(f"\n  {line}" for line in lines) or " it is empty"
        return f"The manager ended ({self.exit_text}). The end of its log {self.log}:{shown}"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the process running inside of this block, unless it ends by itself."""
        with self.log.open("ab") as output:
            process = self._process = await asyncio.create_subprocess_exec(
                *_ending_with_us(),
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C goes to the demo, which stops the manager before the clusters.
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
    """Return a command prefix that makes the kernel stop the manager if the demo is killed.

    Without the demo's clusters, the manager would wait for them for ever. Empty if the machine
    lacks the command.
    """
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "TERM", "--"] if program else []
