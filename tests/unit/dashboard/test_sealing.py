"""The cookies of a login: only this installation opens them, and only in time."""

from __future__ import annotations

import base64
from datetime import timedelta

import msgspec
import pytest

from multiqueue.dashboard.sealing import (
    MAX_SEALED,
    NAMES,
    CookieSeal,
    LoginSession,
    read_cookies,
    write_cookies,
)
from tests.builders.workloads import T0

SESSION = LoginSession(
    token="a.b.c",
    reader="ada",
    namespace="research",
    action="sign",
    expires_at=T0 + timedelta(hours=1),
)


def make_seal(*secrets: bytes) -> CookieSeal:
    seal = CookieSeal()
    for secret in secrets or (b"one",):
        seal.use(secret, T0)
    return seal


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_session_comes_back_as_it_was_and_shows_nothing_meanwhile() -> None:
    seal = make_seal()
    text = seal.close(SESSION, T0)
    assert seal.open(text, T0) == SESSION
    assert make_seal().open(text, T0) == SESSION, "another replica with the same certificate"
    assert b"a.b.c" not in decode(text)
    assert text != seal.close(SESSION, T0), "each seal has a nonce of its own"


def test_every_bit_counts() -> None:
    seal = make_seal()
    sealed = decode(seal.close(SESSION, T0))
    for place in range(len(sealed)):
        altered = bytearray(sealed)
        altered[place] ^= 1
        assert seal.open(base64.urlsafe_b64encode(bytes(altered)).decode(), T0) is None


@pytest.mark.parametrize("text", ["", "AAAA", "=", "%%%", "é", "A" * 20_000, "\udcff"])
def test_what_is_no_seal_opens_nothing(text: str) -> None:
    assert make_seal().open(text, T0) is None


def test_another_installation_cannot_open_it() -> None:
    assert make_seal(b"two").open(make_seal().close(SESSION, T0), T0) is None


def test_a_new_certificate_keeps_readers_and_a_second_one_does_not() -> None:
    seal = make_seal()
    text = seal.close(SESSION, T0)
    seal.use(b"two", T0)
    assert seal.open(text, T0) == SESSION
    seal.use(b"two", T0)
    assert seal.open(text, T0) == SESSION, "the same certificate, read again"
    seal.use(b"three", T0)
    assert seal.open(text, T0) is None


def test_a_new_key_seals_only_when_every_replica_has_it() -> None:
    first, second = make_seal(), make_seal()
    first.use(b"two", T0)
    assert second.open(first.close(SESSION, T0 + timedelta(minutes=9)), T0) == SESSION
    late = first.close(SESSION, T0 + timedelta(minutes=10))
    assert second.open(late, T0) is None
    second.use(b"two", T0)
    assert second.open(late, T0) == SESSION


def test_what_a_page_sends_with_actions_is_its_readers_and_the_same_at_every_replica() -> None:
    first, second = make_seal(), make_seal()
    got = first.derive_action("ada", T0)
    assert (len(got), got) == (64, second.derive_action("ada", T0))
    first.use(b"two", T0)
    assert first.derive_action("ada", T0 + timedelta(minutes=9)) == got
    later = T0 + timedelta(minutes=10)
    others = {first.derive_action("ada", later), second.derive_action("adb", later)}
    assert len({got, *others}) == 3, "neither another certificate nor another reader has it"


def test_an_expired_session_is_none() -> None:
    seal = make_seal()
    text = seal.close(SESSION, T0)
    assert seal.open(text, SESSION.expires_at - timedelta(seconds=1)) == SESSION
    assert seal.open(text, SESSION.expires_at) is None


def test_cookies_are_split_and_those_that_are_left_over_are_removed() -> None:
    sealed = make_seal().close(msgspec.structs.replace(SESSION, token="t" * 2500), T0)
    written = write_cookies(sealed, 60)
    assert [each.partition("=")[0] for each in written] == list(NAMES)
    assert all("; Path=/; HttpOnly; Secure; SameSite=Strict" in each for each in written)
    assert all(len(each) < 4096 for each in written)
    assert ["Max-Age=60" in each for each in written] == [True, False]
    assert "=; Max-Age=0;" in written[1]
    cookies = {each.partition("=")[0]: each.partition("=")[2].partition(";")[0] for each in written}
    assert read_cookies(cookies) == sealed
    assert read_cookies({"other": "x"}) == ""


def test_a_token_that_fits_into_no_cookie_is_refused() -> None:
    with pytest.raises(ValueError, match="the token is too long"):
        make_seal().close(msgspec.structs.replace(SESSION, token="t" * MAX_SEALED), T0)
