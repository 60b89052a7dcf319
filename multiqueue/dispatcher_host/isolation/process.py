"""Start, use and end the process of one plugin, on the manager's side.

The process is started anew (not forked, since this process has threads) in its own process group.
It gets one socket, no standard input, and an environment without any of the manager's secrets.
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
from multiqueue.lib.words import words

_KEPT = words("PATH PYTHONHOME LD_LIBRARY_PATH HOME TMPDIR LANG LC_ALL TZ")
"""Variables that are kept from the manager's environment: paths, language and time zone."""
_OWN = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    # The order of a set is the same in the process that replaces another.
    "PYTHONHASHSEED": "0",
    # Numeric libraries start one thread per processor, each with much address space.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
_MODULE = "multiqueue.dispatcher_host.isolation.child"
_LOOKS, _LOOK_SECONDS = 30, 0.01
"""How often to check how a process ended: the kernel closes its socket a moment before."""


class Child:
    """The started process of a plugin.

    Args:
        name: Name of its dispatcher.
        memory: Bytes of address space that it may use; 0: no limit.

    Raises:
        OSError: The process cannot be started.
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
        """The number of the process, and of its process group."""
        return self._process.pid

    async def ask(self, request: Request) -> Reply:
        """Send a request and wait for the reply; one call at a time.

        A cancelled call ends the process. Between two requests the process is stopped.

        Raises:
            EndedError: The process ended, or sent an invalid reply.
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
        """End the process, and all processes that it started."""
        if self._is_over:
            return
        # Before the process is reaped: until then no other process can get its number.
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
        """Return how the process ended, without reaping it, as `kill` needs its number."""
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
    """Return ``PYTHONPATH`` as absolute folders, since the process starts elsewhere.

    An empty entry, as in ``$PYTHONPATH:/more`` with an unset variable, is left out: the process
    starts in the root folder, where it would mean everything.
    """
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [os.path.abspath(part) for part in parts if part]  # noqa: PTH100 - not resolved
