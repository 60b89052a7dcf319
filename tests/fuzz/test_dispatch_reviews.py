"""Bodies of dispatchreviews as a user writes them."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.visibility.decisions import read_manifest
from multiqueue.visibility.refusals import StatusRefusal
from tests.fuzz.reviews import VALUES, assert_short
from tests.fuzz.runs import LONG, SHORT

BODIES = (
    st.binary(max_size=100)
    | VALUES.map(orjson.dumps)
    | VALUES.map(lambda value: orjson.dumps({"spec": {"manifest": value}}))
    | VALUES.map(lambda value: orjson.dumps({"spec": value}))
)


def check(body: bytes) -> None:
    """A job, or a refusal with words."""
    try:
        assert isinstance(read_manifest(body), dict)
    except StatusRefusal as refusal:
        assert_short(refusal)


@SHORT
@given(BODIES)
def test_any_body_is_read_or_refused(body: bytes) -> None:
    check(body)


@pytest.mark.fuzz
@LONG
@given(BODIES)
def test_any_body_for_long(body: bytes) -> None:
    check(body)


@pytest.mark.parametrize("body", [b"[" * 60_000, b'{"spec":' * 900, b"[" * 900 + b"]" * 900])
def test_depth_is_refused(body: bytes) -> None:
    with pytest.raises(StatusRefusal):
        read_manifest(body)
