"""Who may use the listener on this machine."""

from __future__ import annotations

import pytest

from multiqueue.dashboard.door import Door

HOST = {"Host": "127.0.0.1:8123"}


def make_cookies(door: Door) -> dict[str, str]:
    name, _, value = door.cookie.partition(";")[0].partition("=")
    return {name: value}


def test_a_reader_with_the_cookie_passes() -> None:
    door = Door(8123)
    assert door.check(HOST, make_cookies(door)) is None
    assert door.check({"Host": "localhost:8123"}, make_cookies(door)) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8123"},
        {"Host": "127.0.0.1:9000"},
        {},
        {**HOST, "Origin": "http://evil.example"},
        {**HOST, "Origin": ""},
        {**HOST, "Origin": "https://127.0.0.1:8123"},
        {**HOST, "Sec-Fetch-Site": "cross-site"},
        {**HOST, "Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_from_elsewhere_are_refused_though_they_have_the_cookie(
    headers: dict[str, str],
) -> None:
    door = Door(8123)
    assert door.check(headers, make_cookies(door)) is not None


def test_without_the_cookie_nothing_is_shown() -> None:
    door = Door(8123)
    assert door.check(HOST, {}) is not None
    assert door.check(HOST, {"multiqueue-8123": "guessed"}) is not None
    assert door.check(HOST, make_cookies(Door(8123))) is not None
    assert door.check(HOST, {"multiqueue-8123": "\udcff"}) is not None, "a byte that is no UTF-8"


def test_the_key_is_long_and_only_this_one_opens() -> None:
    door = Door(8123)
    assert door.has_key(door.key)
    assert not door.has_key(Door(8123).key)
    assert not door.has_key(None)
    assert len(door.key) >= 22
    assert door.key not in door.cookie
    assert "HttpOnly; SameSite=Strict" in door.cookie
