"""What a server says is shown without our credentials, in one printable line."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.kube.errors import TransportError, build_api_error
from multiqueue.kube.server_words import MAX_WORDS, PIECE, clean_words, list_secrets

TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6.eyJzdWIiOiJtYW5hZ2VyIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
KEY = b"""-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASC
zzT7aQ+x9/abcdefgh
-----END PRIVATE KEY-----
"""
SECRETS = list_secrets(f"Bearer {TOKEN}", KEY, "http://me:pro xy@proxy:3128")


@pytest.mark.parametrize(
    "echo",
    [
        TOKEN,
        f"GET /apis\r\nAuthorization: Bearer {TOKEN}\r\n",
        TOKEN[:40],
        TOKEN[-30:],
        f"x{TOKEN}x{TOKEN}",
        TOKEN[:30] + "\n" + TOKEN[30:],
        base64.b64encode(TOKEN.encode()).decode(),
        KEY.decode(),
        base64.b64encode(KEY).decode(),
        "pro xy",
    ],
    ids=[
        "alone",
        "in a header",
        "its beginning",
        "its end",
        "twice",
        "on two lines",
        "in base64",
        "the key",
        "the key in base64",
        "the password of the proxy",
    ],
)
def test_a_credential_that_is_echoed_is_redacted(echo: str) -> None:
    got = clean_words(f"refused: {echo} and more", SECRETS)
    assert got.startswith("refused: ")
    assert got.endswith(" and more")
    assert "[redacted]" in got
    for secret in (TOKEN, TOKEN[:30], TOKEN[-PIECE:], "MIIEvQIBADANBgkq", "pro xy"):
        assert secret not in got


def test_the_password_of_basic_authentication_is_a_credential() -> None:
    header = "Basic " + base64.b64encode(b"admin:correct horse").decode()
    assert clean_words("no correct horse here", list_secrets(header, None, None)) == (
        "no [redacted] here"
    )


def test_other_long_words_are_shown_as_they_are() -> None:
    text = 'workloads.kueue.x-k8s.io "train-sample-workload-0123456789" not found'
    assert clean_words(text, SECRETS) == text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a\x1b[31mred\x1b[0m b", "ared b"),
        ("\x1b]0;title\x07a", "a"),
        ("\x1b]0;title\x1b\\a", "a"),
        ("one\ntwo\r\n\tthree", "one two three"),
        ("a\x00b\x9b31mc\u202ed", "a b 31mc d"),
        ("naïve — 模型", "naïve — 模型"),
        ("\x1b", ""),
    ],
)
def test_nothing_moves_a_terminal(text: str, want: str) -> None:
    assert clean_words(text) == want


def test_a_long_text_is_cut_and_says_so() -> None:
    got = clean_words("a" * 10_000_000)
    assert len(got) == MAX_WORDS
    assert got.endswith("a…")


def test_a_credential_is_not_shown_in_part_where_the_text_is_cut() -> None:
    for blanks in range(64 * 1024 - len(TOKEN), 64 * 1024):
        got = clean_words(" " * blanks + TOKEN, SECRETS)
        assert got in {"", "[redacted]"}, blanks


@settings(deadline=None)  # the machine may be busy
@given(st.text(), st.lists(st.text(min_size=4), max_size=3))
def test_no_text_gets_through_unclean(text: str, secrets: list[str]) -> None:
    got = clean_words(text + "".join(secrets), secrets)
    assert got.isprintable()
    assert len(got) <= MAX_WORDS


def test_the_error_of_a_status_is_clean_in_all_its_parts() -> None:
    status = {
        "message": f"bad\x1b[2J {TOKEN}",
        "reason": f"Not\n{TOKEN}",
        "details": {
            "name": f"a{TOKEN}",
            "causes": [{"message": f"\x07{TOKEN}", "field": "spec\n", "reason": "x\x1b[1m"}],
            "retryAfterSeconds": 1e300,
            "more": {"token": TOKEN},
        },
    }
    error = build_api_error(403, status, request="GET pods", secrets=SECRETS)
    assert str(error) == "GET pods: 403: bad [redacted]"
    assert error.server_message == "bad [redacted]"
    assert error.reason == ""
    assert TOKEN not in repr(error.details)
    assert (error.causes[0].message, error.causes[0].field) == ("[redacted]", "spec")
    assert error.causes[0].reason == "x"
    assert error.retry_after is not None
    assert error.retry_after <= 600


def test_every_error_of_this_package_is_one_line() -> None:
    assert str(TransportError("GET pods: \x1b[31m\nno")) == "GET pods: no"
