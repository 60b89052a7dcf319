"""Starts, reads from and ends the process of one plugin, as the manager sees it.

It is started anew (not forked: this process has threads), in a process group of its own, and gets
one socket, nowhere to read from, and an environment without anything of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

from multiqueue.dispatcher_host.host import EndedError
from multiqueue.dispatcher_host.isolation.frames import (
    HEADER,
    MEMORY_STATUS,
    MOST_BYTES,
    Reply,
    Request,
    read_reply,
    write_frame,
)
from multiqueue.dispatcher_host.isolation.output import read_output

_KEPT = (
    "PATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "TZ",
)
"""Of the manager's environment: where things are, and how they are written."""
_OWN = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    # The order of a set is the same in the process that takes the place of another.
    "PYTHONHASHSEED": "0",
    # Numeric libraries start a thread per processor, each with much address space.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
_MODULE = "multiqueue.dispatcher_host.isolation.child"
_LOOKS, _LOOK_SECONDS = 30, 0.01
"""How often to look how one ended that hung up: the kernel closes its socket a moment before."""


class Child:
    """A process that was started.

    Args:
        name: Of its dispatcher.
        memory: Bytes of address space that it may use; 0: as much as there is.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, name: str, memory: int) -> None:
        self._socket, theirs = socket.socketpair()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._is_over = False
        output, printed = os.pipe()
        try:
            self._process = _start(theirs.fileno(), printed, memory)
        except OSError:
            os.close(output)
            self._socket.close()
            raise
        finally:
            theirs.close()
            os.close(printed)
        threading.Thread(
            target=read_output, args=(output, name), name=f"dispatcher-output-{name}", daemon=True
        ).start()

    @property
    def pid(self) -> int:
        """Its number, and that of its process group."""
        return self._process.pid

    async def ask(self, request: Request) -> Reply:
        """Ask it something; one call at a time. Whoever does not wait for the answer ends it.

        Between two questions nothing of it runs.

        Raises:
            EndedError: it ended, or says what nobody understands.
        """
        self._signal(signal.SIGCONT)
        try:
            reply = await self._exchange(request)
        except (OSError, asyncio.IncompleteReadError):
            try:
                how = await self._find_end()
            finally:
                self.kill()
            raise EndedError(how) from None
        except BaseException:
            self.kill()
            raise
        self._signal(signal.SIGSTOP)
        return reply

    def kill(self) -> None:
        """End it, and all that it started."""
        if self._is_over:
            return
        # Before it is waited for: until then the number is that of nobody else.
        self._signal(signal.SIGKILL)
        self._is_over = True
        if self._streams is not None:
            self._streams[1].transport.abort()
        else:
            self._socket.close()
        wait = self._process.wait
        threading.Thread(target=wait, name=f"dispatcher-end-{self.pid}", daemon=True).start()

    def _signal(self, number: signal.Signals) -> None:
        if not self._is_over:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended by itself
                os.killpg(self.pid, number)

    async def _exchange(self, request: Request) -> Reply:
        if self._is_over:
            raise EndedError("was ended")
        if self._streams is None:
            self._streams = await asyncio.open_connection(sock=self._socket, limit=MOST_BYTES)
        reader, writer = self._streams
        writer.write(write_frame(request))
        await writer.drain()
        (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
        if size > MOST_BYTES:
            raise EndedError(f"was ended: its answer has {size} bytes, more than {MOST_BYTES}")
        try:
            return read_reply(await reader.readexactly(size))
        except ValueError as error:
            raise EndedError(f"was ended: its answer cannot be read: {error}") from error

    async def _find_end(self) -> str:
        """Say how it ended, where it did; it is not reaped yet, as `kill` needs its number."""
        for _ in range(_LOOKS):
            ended = _look(self.pid)
            if ended is not None:
                return _describe_end(ended.si_code, ended.si_status)
            await asyncio.sleep(_LOOK_SECONDS)
        return "was ended: it hung up"


def _look(pid: int) -> os.waitid_result | None:
    if not hasattr(os, "waitid"):  # macOS
        return None
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def _describe_end(code: int, status: int) -> str:
    if code == os.CLD_EXITED and status == MEMORY_STATUS:
        return "was ended: it filled the memory that it may use"
    if code == os.CLD_EXITED:
        return f"ended its process with status {status}"
    return f"ended its process: {signal.strsignal(status) or f'signal {status}'}"


def _start(channel: int, output: int, memory: int) -> subprocess.Popen[bytes]:
    environment = {name: value for name in _KEPT if (value := os.environ.get(name)) is not None}
    paths = {"PYTHONPATH": os.pathsep.join(_list_paths())}
    return subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
        [sys.executable, "-P", "-m", _MODULE, str(channel), str(memory)],
        env=environment | paths | _OWN,
        pass_fds=(channel,),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd="/",
        start_new_session=True,
    )


def _list_paths() -> list[str]:
    """Return what ``PYTHONPATH`` names, as seen from here: elsewhere "" and "." are other folders.

    Not "", which ``$PYTHONPATH:/more`` begins with where it was empty: in the root folder, where
    the process starts, that is all there is.
    """
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [os.path.abspath(part) for part in parts if part]  # noqa: PTH100 - not resolved
