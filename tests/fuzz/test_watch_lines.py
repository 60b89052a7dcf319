"""Lines of watches as a hostile worker writes them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.kube.errors import MAX_ERROR, KubeError
from multiqueue.kube.lines import LineSplitter
from multiqueue.kube.wire import parse_frame
from tests.fuzz.answers import JOB, STATUS, WORKLOAD, cuts, encode, mutants
from tests.fuzz.runs import LONG, SHORT

FRAMES = (
    {"type": "ADDED", "object": JOB},
    {"type": "MODIFIED", "object": WORKLOAD},
    {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}},
    {"type": "ERROR", "object": STATUS},
)
LINES = mutants(*FRAMES).map(encode).flatmap(cuts) | st.binary()
LIMIT = 64


def read(line: bytes) -> None:
    """Read a line as the client does; nothing but a `KubeError` may come of it."""
    refused = ""
    try:
        event = parse_frame(line, "WATCH jobs", lambda: ("team-a",))
        assert isinstance(event.type, str)
        assert isinstance(event.raw, bytes)
    except KubeError as error:
        refused = str(error)
    assert refused.isprintable()
    assert "team-a" not in refused
    assert len(refused) <= MAX_ERROR


@SHORT
@given(LINES)
def test_any_line_is_an_event_or_an_error(line: bytes) -> None:
    read(line)


@pytest.mark.fuzz
@LONG
@given(LINES)
def test_any_line_for_long(line: bytes) -> None:
    read(line)


@SHORT
@given(st.lists(st.binary(max_size=40)))
def test_a_line_beyond_the_limit_is_noticed_at_once(chunks: list[bytes]) -> None:
    splitter = LineSplitter(limit=LIMIT)
    open_line = 0
    for chunk in chunks:
        splitter.feed(chunk)
        open_line = len(chunk) - chunk.rfind(b"\n") - 1 + (open_line if b"\n" not in chunk else 0)
        assert splitter.is_beyond_limit == (open_line > LIMIT)


@pytest.mark.parametrize("opener", [b"[", b'{"type":', b'{"type":"ERROR","object":['])
def test_nesting_without_end_is_refused(opener: bytes) -> None:
    with suppress(KubeError):
        read(opener * 100_000)
    deep = b'{"type":"ERROR","object":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(KubeError):
        parse_frame(deep, "WATCH jobs")
