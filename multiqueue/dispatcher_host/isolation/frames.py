"""The messages between the manager and a plugin's process.

A frame is its length (four bytes, big-endian) and one MessagePack value. The manager sends
requests, and the process sends one reply to each. Nothing from a plugin's process is trusted:
replies are decoded into exactly these types, and the answer in them is read like any other.

The JSON of recordings is not used here. It is made for people and for storage, and takes 18 ms for
a round trip with a view of a hundred workers; this format takes 1 ms.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from multiqueue.dispatcher_host.answer import AnswerReading
from multiqueue.dispatcher_host.conduct import ConductFinding
from multiqueue.dispatcher_host.isolation.mirror import ClusterRow
from multiqueue.plugins import DispatchView

HEADER = struct.Struct("!I")
MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of a reply; the longest answer for a hundred workers has some ten thousand bytes."""
MEMORY_STATUS = 97
"""The exit status of a process that reached its memory limit."""


class Load(msgspec.Struct, tag=True, frozen=True):
    """Load a dispatcher; the first request.

    Attributes:
        value: Its entry point, ``module:attribute``.
        paths: The manager's module search path.
        arguments: Arguments that it shall check; None: no check.
    """

    value: str
    paths: tuple[str, ...]
    arguments: dict[str, Any] | None


class Ask(msgspec.Struct, tag=True, frozen=True):
    """Ask the dispatcher where to send a Workload.

    Attributes:
        view: The view without its clusters.
        rows: The clusters of the view.
    """

    view: DispatchView
    rows: tuple[ClusterRow, ...]


class Examine(msgspec.Struct, tag=True, frozen=True):
    """Ask the last question again, and check the dispatcher's conduct."""


class Loaded(msgspec.Struct, tag=True, frozen=True):
    """The result of loading; without problems and wrong arguments, the dispatcher is loaded.

    Attributes:
        problem: Why it is not loaded; follows the dispatcher's name.
        wrong_arguments: Problems that it found in its arguments; None: it does not check them.
        open_ways: Restrictions that this machine does not support.
    """

    problem: str = ""
    wrong_arguments: tuple[str, ...] | None = ()
    open_ways: tuple[str, ...] = ()


class Answered(msgspec.Struct, tag=True, frozen=True):
    """The dispatcher's answer."""

    reading: AnswerReading


class Examined(msgspec.Struct, tag=True, frozen=True):
    """The findings about the dispatcher's conduct."""

    findings: tuple[ConductFinding, ...]


class Raised(msgspec.Struct, tag=True, frozen=True):
    """The dispatcher raised an error."""

    error: str


Request = Load | Ask | Examine
Reply = Loaded | Answered | Examined | Raised

_ENCODER = msgspec.msgpack.Encoder()
_REQUESTS = msgspec.msgpack.Decoder(Request)
_REPLIES = msgspec.msgpack.Decoder(Reply)


def write_frame(message: Request | Reply) -> bytes:
    """Return a message preceded by its length."""
    body = _ENCODER.encode(message)
    return HEADER.pack(len(body)) + body


def read_request(body: bytes) -> Request:
    """Decode a request of the manager."""
    request: Request = _REQUESTS.decode(body)
    return request


def read_reply(body: bytes) -> Reply:
    """Decode a reply of a plugin's process.

    Raises:
        ValueError: The body is not a valid reply.
    """
    try:
        reply: Reply = _REPLIES.decode(body)
    except RecursionError as error:
        raise ValueError("is nested too deep") from error
    return reply
