"""What the manager and a plugin's process say to each other.

A frame is its length (four bytes, big-endian) and one MessagePack value. The manager asks, and gets
one answer to each question; nothing else is said. Nothing that comes from a plugin's process is
believed: it is decoded into exactly these types, and read as any other answer then.

Not the JSON of recordings, which people read and which lasts: that takes 18 ms there and back for a
view of a hundred workers, this 1 ms.
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
"""Of an answer: for a hundred workers the longest has some ten thousand."""
MEMORY_STATUS = 97
"""With which a process exits that may have no more memory."""


class Load(msgspec.Struct, tag=True, frozen=True):
    """Load a dispatcher; comes first.

    Attributes:
        value: Its entry point, ``module:attribute``.
        paths: Where the manager looks for modules.
        arguments: What it is to look at; None: nothing.
    """

    value: str
    paths: tuple[str, ...]
    arguments: dict[str, Any] | None


class Ask(msgspec.Struct, tag=True, frozen=True):
    """Ask it where a Workload shall go.

    Attributes:
        view: What it is shown, without the clusters.
        rows: These.
    """

    view: DispatchView
    rows: tuple[ClusterRow, ...]


class Examine(msgspec.Struct, tag=True, frozen=True):
    """Ask it the same once more, and look at what it does."""


class Loaded(msgspec.Struct, tag=True, frozen=True):
    """What came of loading; both empty: it is loaded.

    Attributes:
        problem: Why it is not, to go after its name.
        wrong_arguments: What it says is wrong with its arguments; None: it cannot tell.
        open_ways: What cannot be kept from it here.
    """

    problem: str = ""
    wrong_arguments: tuple[str, ...] | None = ()
    open_ways: tuple[str, ...] = ()


class Answered(msgspec.Struct, tag=True, frozen=True):
    """What it answered."""

    reading: AnswerReading


class Examined(msgspec.Struct, tag=True, frozen=True):
    """What was found."""

    findings: tuple[ConductFinding, ...]


class Raised(msgspec.Struct, tag=True, frozen=True):
    """It raised something."""

    error: str


Request = Load | Ask | Examine
Reply = Loaded | Answered | Examined | Raised

_ENCODER = msgspec.msgpack.Encoder()
_REQUESTS = msgspec.msgpack.Decoder(Request)
_REPLIES = msgspec.msgpack.Decoder(Reply)


def write_frame(message: Request | Reply) -> bytes:
    """Return a message with its length before it."""
    body = _ENCODER.encode(message)
    return HEADER.pack(len(body)) + body


def read_request(body: bytes) -> Request:
    """Return what the manager says."""
    request: Request = _REQUESTS.decode(body)
    return request


def read_reply(body: bytes) -> Reply:
    """Return what a plugin's process says.

    Raises:
        ValueError: it is none of what it may say.
    """
    try:
        reply: Reply = _REPLIES.decode(body)
    except RecursionError as error:
        raise ValueError("is nested too deep") from error
    return reply
