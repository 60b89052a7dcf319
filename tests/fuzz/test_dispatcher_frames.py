"""What a plugin's process sends back: any bytes, and any message of other shapes."""

from __future__ import annotations

import contextlib
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.dispatcher_host.isolation.frames import Loaded, read_reply
from tests.fuzz.reviews import VALUES
from tests.fuzz.runs import LONG, SHORT

SECONDS = 2.0
TYPES = st.sampled_from(["Loaded", "Answered", "Examined", "Raised", "Load", ""])
FIELDS = st.sampled_from(["problem", "reading", "findings", "error", "open_ways", "nomination"])
PACK = msgspec.msgpack.Encoder().encode
FRAMES = (
    st.binary(max_size=200)
    | VALUES.map(PACK)
    | st.builds(
        lambda tag, fields: PACK({"type": tag, **fields}),
        TYPES,
        st.dictionaries(FIELDS, VALUES, max_size=4),
    )
)


def check(body: bytes) -> None:
    """A message or a `ValueError`, in time."""
    began = time.process_time()
    with contextlib.suppress(ValueError):
        assert type(read_reply(body)).__module__.endswith("frames")
    assert time.process_time() - began < SECONDS


@SHORT
@given(FRAMES)
def test_any_frame_is_read_or_refused(body: bytes) -> None:
    check(body)


@pytest.mark.fuzz
@LONG
@given(FRAMES)
def test_any_frame_for_long(body: bytes) -> None:
    check(body)


@pytest.mark.parametrize(
    "body",
    [
        b"\x91" * 100_000,
        b"\x81\xa4type" * 50_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ],
    ids=["lists", "mappings", "array length", "map length", "text length", "bytes length"],
)
def test_a_bomb_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_reply(body)


def test_what_is_meant_is_read() -> None:
    assert read_reply(PACK(Loaded(problem="x"))) == Loaded(problem="x")
