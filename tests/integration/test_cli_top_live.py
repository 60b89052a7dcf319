"""`multiqueue top` in a terminal: it draws, takes keys, runs commands and ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from multiqueue.kube.resources import WORKLOADS
from tests.integration.test_cli_commands import (
    logs_are_not_output,
    queue_cluster,
    until,
    write_job,
)

__all__ = ["logs_are_not_output"]
pytestmark = [pytest.mark.programs, pytest.mark.timeout(120)]


class Terminal:
    """A terminal of 100 columns in which a program runs."""

    def __init__(self, fd: int, process: asyncio.subprocess.Process) -> None:
        self._fd = fd
        self.process = process
        self.text = ""
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            self.text += os.read(self._fd, 65536).decode(errors="replace")
        except OSError:  # the program has ended
            asyncio.get_running_loop().remove_reader(self._fd)

    def send(self, keys: str) -> None:
        self.text = ""
        os.write(self._fd, keys.encode())

    async def press(self, keys: str, shows: str) -> None:
        """Press keys and wait until the program has drawn something after that."""
        self.send(keys)
        await self.until(shows)

    async def until(self, shows: str) -> None:
        for _ in range(600):
            if shows in self.text:
                return
            await asyncio.sleep(0.05)
        pytest.fail(f"no {shows!r} in: {self.text[-3000:]}")


@asynccontextmanager
async def running_top(kubeconfig: Path) -> AsyncIterator[Terminal]:
    main, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    arguments = ("top", "--kubeconfig", str(kubeconfig), "--interval", "0.5")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "multiqueue", *arguments),
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    terminal = Terminal(main, process)
    try:
        yield terminal
    finally:
        asyncio.get_running_loop().remove_reader(main)
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(main)


async def test_keys_explain_find_and_cancel_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        for name, gpus in (("holder", 3), ("waiter", 2)):
            job = write_job(tmp_path, name, gpus=gpus, seconds="forever")
            await shell.run("submit", "-f", job, "-n", "team")
        async with running_top(tmp_path / "kubeconfig") as terminal:
            await terminal.until("team/waiter")
            await terminal.press("/waiter\r", 'begins with "waiter": 1')
            await terminal.press("w", "Press a key to go back")
            assert "1 more needed" in terminal.text
            await terminal.press(" ", "team/waiter")
            await terminal.press("d", 'Job/waiter of namespace "team" is deleted')
            await terminal.press("y\r", "Press a key to go back")
            await until(client, WORKLOADS, lambda all_: len(all_) == 1)
            await terminal.press(" ", 'begins with "waiter": 0')
            terminal.send("q")
            assert await asyncio.wait_for(terminal.process.wait(), 20) == 0
        assert len(await shell.json("queue", "jobs", "-n", "team")) == 1
