"""The process of one plugin: it loads a dispatcher and answers until the manager hangs up.

Started by `process.Child` with the number of its socket and its memory limit.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from dataclasses import dataclass, field, replace

from multiqueue.dispatcher_host.answer import AnswerReading, take
from multiqueue.dispatcher_host.conduct import examine
from multiqueue.dispatcher_host.frozen import freeze
from multiqueue.dispatcher_host.isolation.confine import limit, shut_in
from multiqueue.dispatcher_host.isolation.frames import (
    HEADER,
    MEMORY_STATUS,
    Answered,
    Ask,
    Examine,
    Examined,
    Load,
    Loaded,
    Raised,
    Reply,
    Request,
    read_request,
    write_frame,
)
from multiqueue.dispatcher_host.isolation.mirror import Reader
from multiqueue.dispatcher_host.make_dispatcher import (
    EntryError,
    check_arguments,
    make_dispatcher,
)
from multiqueue.plugins import ClusterView, Dispatcher, DispatchView
from multiqueue.plugins.raised import describe_error

SHUT_IN = "; it runs without network, other processes, and files but Python's"
_GC_THRESHOLDS = (50_000, 20, 100)
"""A decision about a hundred workers makes some thousand objects, and no reference cycles."""


@dataclass(slots=True)
class _Plugin:
    """The dispatcher, and the last question to it."""

    dispatcher: Dispatcher | None = None
    reader: Reader = field(default_factory=Reader)
    view: DispatchView | None = None
    clusters: tuple[ClusterView, ...] = ()
    reading: AnswerReading | None = None

    def read(self, body: bytes) -> Request:
        """Read a request of the manager. After an error, the process cannot continue."""
        request = read_request(body)
        if isinstance(request, Ask):
            self.view, self.clusters = request.view, self.reader.read(request.rows)
        return request

    def answer(self, request: Request) -> Reply:
        """Carry out a request of the manager."""
        if isinstance(request, Load):
            return self._load(request)
        assert self.dispatcher is not None
        if isinstance(request, Ask):
            self.reading = take(self.dispatcher.nominate(self._show()))
            return Answered(self.reading)
        assert isinstance(request, Examine)
        assert self.reading is not None
        return Examined(examine(self.dispatcher, self._show(), self.reading))

    def _show(self) -> DispatchView:
        """Return the last view, frozen; lists in its arguments are new each time."""
        assert self.view is not None
        return replace(freeze(self.view), clusters=self.clusters)

    def _load(self, request: Load) -> Loaded:
        sys.path.extend(path for path in request.paths if path not in sys.path)
        open_ways = shut_in()
        try:
            self.dispatcher = make_dispatcher(request.value)
        except EntryError as error:
            return Loaded(problem=f"{error}{_hint(error.__cause__)}", open_ways=open_ways)
        # Imported objects live as long as the process: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        wrong = (
            () if request.arguments is None else check_arguments(self.dispatcher, request.arguments)
        )
        return Loaded(wrong_arguments=wrong, open_ways=open_ways)


def main() -> None:
    """Answer requests until the manager hangs up."""
    number, memory = map(int, sys.argv[1:])
    channel = socket.socket(fileno=number)
    channel.set_inheritable(False)
    limit(memory)
    plugin, own = _Plugin(), os.getpid()
    while (body := _receive(channel)) is not None:
        try:
            reply = write_frame(_try(plugin, plugin.read(body)))
        except MemoryError:
            # The memory may never be released: a new process starts without it.
            os._exit(MEMORY_STATUS)
        if os.getpid() != own:  # the plugin forked, and this is the child
            os._exit(0)
        channel.sendall(reply)


def _try(plugin: _Plugin, request: Request) -> Reply:
    try:
        return plugin.answer(request)
    except MemoryError:
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit of a plugin is an error too
        return Raised(f"{describe_error(error)}{_hint(error)}")


def _hint(error: BaseException | None) -> str:
    """Explain why the system refused an operation, if the error does not say so."""
    return SHUT_IN if isinstance(error, OSError) else ""


def _receive(channel: socket.socket) -> bytes | None:
    header = _receive_exactly(channel, HEADER.size)
    return None if header is None else _receive_exactly(channel, HEADER.unpack(header)[0])


def _receive_exactly(channel: socket.socket, count: int) -> bytes | None:
    """Return exactly the given number of bytes; None if the manager hung up."""
    parts = bytearray()
    while len(parts) < count:
        part = channel.recv(count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


if __name__ == "__main__":
    main()
