"""Error answers as a hostile worker writes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.kube.errors import MAX_ERROR, MAX_RETRY_SECONDS, ApiError, build_api_error
from multiqueue.kube.lines import parse_warnings
from multiqueue.kube.server_words import clean_words
from tests.fuzz.answers import STATUS, cuts, encode, mutants
from tests.fuzz.runs import LONG, SHORT

TOKEN = "eyJhbGciOiJSUzI1NiIs.eyJzdWIiOiJt.c2lnbmF0dXJl"
BODIES = mutants(STATUS).map(encode).flatmap(cuts) | st.binary()
ECHOES = st.lists(
    st.text(max_size=12) | st.sampled_from([TOKEN, f"Bearer {TOKEN}", "\x1b[2J", "\r\n", " "]),
    max_size=6,
).map("".join)


def check(status: int, body: bytes) -> None:
    error = build_api_error(status, body, request="GET pods", secrets=(TOKEN,))
    assert isinstance(error, ApiError)
    texts = [str(error), error.server_message, error.reason, repr(error.details)]
    texts += [text for each in error.causes for text in (each.reason, each.message, each.field)]
    for text in texts:
        assert text.isprintable()
        assert TOKEN not in text
    assert len(str(error)) <= MAX_ERROR
    assert error.retry_after is None or 0 < error.retry_after <= MAX_RETRY_SECONDS


def echoing(echo: str) -> Any:
    details = {"name": echo, "causes": [{"message": echo, "field": echo}]}
    return {**STATUS, "message": echo, "reason": echo, "details": details}


@SHORT
@given(st.integers(400, 599), BODIES)
def test_any_body_is_an_error_that_can_be_shown(status: int, body: bytes) -> None:
    check(status, body)


@SHORT
@given(ECHOES)
def test_no_echo_shows_the_token(echo: str) -> None:
    check(500, encode(echoing(echo)))
    check(500, echo.encode("utf-8", "replace"))
    for warning in parse_warnings(f'299 - "{echo}"'):
        assert TOKEN not in clean_words(warning, (TOKEN,))


@pytest.mark.fuzz
@LONG
@given(st.integers(100, 599), BODIES, ECHOES)
def test_any_error_for_long(status: int, body: bytes, echo: str) -> None:
    check(status, body)
    check(status, encode(echoing(echo)))
    check(status, echo.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, TOKEN.encode() * 20_000, b"\x1b]" * 100_000, b'{"message":' * 50_000],
    ids=["nested", "the token again and again", "escapes without end", "nested objects"],
)
def test_a_large_error_is_shown_in_bounded_time(body: bytes) -> None:
    check(500, body)
