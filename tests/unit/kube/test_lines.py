from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.kube.backoff import Backoff
from multiqueue.kube.errors import ApiError, build_api_error
from multiqueue.kube.lines import LineSplitter, parse_warnings


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.binary(max_size=8).map(lambda b: b.replace(b"x", b"\n"))))
def test_lines_do_not_depend_on_how_the_stream_was_cut(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    got = [line for chunk in chunks for line in splitter.feed(chunk)]
    *complete, _unfinished = b"".join(chunks).split(b"\n")
    assert got == [line for line in complete if line]


@pytest.mark.parametrize(
    ("header", "want"),
    [
        ('299 - "deprecated"', ["deprecated"]),
        ('299 - "one, two", 299 agent "three"', ["one, two", "three"]),
        (r'299 - "say \"hi\" \\ bye"', [r'say "hi" \ bye']),
        ('299 - ""', [""]),
        ("garbage", []),
        ('299 - "never closed', []),
    ],
)
def test_texts_of_a_warning_header(header: str, want: list[str]) -> None:
    assert parse_warnings(header) == want


@settings(deadline=None)  # the machine may be busy
@given(st.integers(100, 599), st.binary() | st.sampled_from([b"[]", b"null", b'"x"', b"{}"]))
def test_any_error_body_becomes_an_error(status: int, body: bytes) -> None:
    error = build_api_error(status, body, request="GET pods")
    assert isinstance(error, ApiError)
    assert error.status == status
    assert str(error).startswith(f"GET pods: {status}")
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    "status",
    [
        {"message": None, "reason": None, "details": None},
        {"details": []},
        {"details": {"causes": "x", "retryAfterSeconds": "soon"}},
        {"details": {"causes": [1, {"message": None}]}},
    ],
)
def test_a_status_of_the_wrong_shape_is_survived(status: dict[str, object]) -> None:
    error = build_api_error(500, status)
    assert all(cause.message == "" for cause in error.causes)
    assert error.retry_after is None


def test_a_status_may_say_when_to_come_back() -> None:
    assert build_api_error(429, {"details": {"retryAfterSeconds": 3}}).retry_after == 3.0


def test_waits_double_up_to_the_cap_and_are_shortened_by_at_most_half() -> None:
    longest = Backoff(base=1, cap=10, jitter=lambda: 1.0)
    shortest = Backoff(base=1, cap=10, jitter=lambda: 0.0)
    assert [longest.next() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert [shortest.next() for _ in range(6)] == [0.5, 1, 2, 4, 5, 5]
    longest.reset()
    assert longest.next() == 1
    for _ in range(5000):
        assert longest.next() <= 10
