"""The login: what is asked of the API server, how often, and when a session is over."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from multiqueue.dashboard.login import MAX_TOKEN, Login, WrongTokens, read_expiry
from multiqueue.dashboard.page_answers import StreamOver
from multiqueue.dashboard.sealing import LoginSession
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.refusals import StatusRefusal, unauthorized
from tests.builders.workloads import T0


class Reviews:
    """Knows some tokens; `asked` are those that were reviewed."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known
        self.asked: list[str] = []
        self.failure: StatusRefusal | None = None

    async def authenticate(
        self, certificate: bytes | None, headers: list[tuple[str, str]]
    ) -> AuthenticatedUser:
        assert certificate is None
        token = dict(headers)["authorization"].removeprefix("Bearer ")
        self.asked.append(token)
        if self.failure is not None:
            raise self.failure
        if token not in self.known:
            raise unauthorized()
        return AuthenticatedUser(name=self.known[token])


class Fixed:
    def now(self) -> datetime:
        return T0


def make_login(reviews: Reviews, **options: Any) -> Login:
    return Login(reviews, Fixed(), **options)  # type: ignore[arg-type]


def make_jwt(**claims: Any) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(orjson.dumps(value)).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}.c2ln"


async def test_a_session_ends_with_its_token_and_after_twelve_hours_at_the_latest() -> None:
    soon = make_jwt(exp=int((T0 + timedelta(minutes=9)).timestamp()))
    late = make_jwt(exp=int((T0 + timedelta(days=9)).timestamp()))
    login = make_login(Reviews({soon: "ada", late: "bob", "opaque": "eve"}))
    got = [(await login.enter({"token": each}, "a")).expires_at for each in (soon, late, "opaque")]
    assert got == [T0 + timedelta(minutes=9), T0 + timedelta(hours=12), T0 + timedelta(hours=12)]


async def test_the_namespace_is_the_one_that_was_entered_or_that_of_the_service_account() -> None:
    login = make_login(Reviews({"t": "system:serviceaccount:research:ci", "u": "ada"}))
    assert (await login.enter({"token": " t\n"}, "a")).namespace == "research"
    assert (await login.enter({"token": "t", "namespace": "other"}, "a")).namespace == "other"
    first, second = [await login.enter({"token": "u"}, "a") for _ in range(2)]
    assert (first.namespace, first.reader) == ("", "ada")
    assert first.action != second.action


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ([], "token: enter"),
        ({}, "token: enter"),
        ({"token": " "}, "token: enter"),
        ({"token": 7}, "token: enter"),
        ({"token": "a b"}, "token: this is no bearer token"),
        ({"token": "a\r\nX-Remote-User: root"}, "token: this is no bearer token"),
        ({"token": "é"}, "token: this is no bearer token"),
        ({"token": "t" * (MAX_TOKEN + 1)}, "token: it has 5001 characters"),
        ({"token": "t", "namespace": "A/b"}, "namespace: this is no name"),
        ({"token": "t", "namespace": ["a"]}, "namespace: this is no name"),
    ],
)
async def test_what_is_no_token_is_refused_without_asking(form: object, words: str) -> None:
    reviews = Reviews({})
    with pytest.raises(StatusRefusal, match=words) as refused:
        await make_login(reviews).enter(form, "a")
    assert (refused.value.code, reviews.asked) == (400, [])


async def test_after_five_wrong_tokens_an_address_has_to_wait_and_others_do_not() -> None:
    reviews = Reviews({"right": "ada"})
    login = make_login(reviews)

    async def enter(token: str, address: str) -> int:
        try:
            await login.enter({"token": token}, address)
        except StatusRefusal as refusal:
            return refusal.code
        return 200

    assert [await enter("right", "a") for _ in range(9)] == [200] * 9
    got = await asyncio.gather(*(enter(f"wrong{i}", "a") for i in range(20)))
    assert got == [401] * 5 + [429] * 15
    assert len(reviews.asked) == 9 + 5
    assert (await enter("right", "a"), await enter("right", "b")) == (429, 200)


async def test_an_api_server_that_cannot_say_makes_no_token_wrong() -> None:
    reviews = Reviews({"t": "ada"})
    login = make_login(reviews)
    reviews.failure = StatusRefusal(500, "InternalError", "the token cannot be reviewed")
    for _ in range(9):
        with pytest.raises(StatusRefusal, match="cannot be reviewed"):
            await login.enter({"token": "t"}, "a")
    reviews.failure = None
    assert (await login.enter({"token": "t"}, "a")).reader == "ada"


async def recognize(login: Login, *headers: str, namespace: str = "") -> LoginSession:
    return await login.recognize(headers, namespace, lambda reader: f"sign of {reader}")


async def test_a_token_of_a_proxy_is_asked_about_once_and_never_after_its_end() -> None:
    soon = make_jwt(exp=int((T0 + timedelta(minutes=9)).timestamp()))
    over = make_jwt(exp=int(T0.timestamp()))
    reviews = Reviews({soon: "ada", over: "ada", "t": "system:serviceaccount:research:ci"})
    login = make_login(reviews)
    session = await recognize(login, f"Bearer {soon}")
    assert (session.reader, session.action, session.namespace) == ("ada", "sign of ada", "")
    assert session.expires_at == T0 + timedelta(minutes=9)
    assert await recognize(login, f"bearer {soon}", namespace="A/b") == session
    assert (await recognize(login, "Bearer t")).namespace == "research"
    assert (await recognize(login, "Bearer t", namespace="other")).namespace == "other"
    with pytest.raises(StatusRefusal, match="has expired; the proxy has to renew it"):
        await recognize(login, f"Bearer {over}")
    assert reviews.asked == [soon, "t"]


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("",),
        ("Bearer",),
        ("Bearer ",),
        ("Bearer a b",),
        ("Basic a",),
        ("a",),
        ("Bearer a, Bearer b",),
        ("Bearer a", "Bearer a"),
        ("Bearer \udcff",),
    ],
)
async def test_what_is_not_one_token_of_a_proxy_is_refused_without_asking(
    headers: tuple[str, ...],
) -> None:
    reviews = Reviews({"a": "ada"})
    with pytest.raises(StatusRefusal, match=r"dashboard\.auth\.mode") as refused:
        await recognize(make_login(reviews), *headers)
    assert (refused.value.code, reviews.asked) == (401, [])


async def test_wrong_tokens_of_a_proxy_lock_nobody_out() -> None:
    reviews = Reviews({"t": "ada"})
    login = make_login(reviews)
    for _ in range(9):
        with pytest.raises(StatusRefusal, match="issuer and audience") as refused:
            await recognize(login, "Bearer wrong")
        assert refused.value.code == 401
    reviews.failure = StatusRefusal(500, "InternalError", "the token cannot be reviewed")
    with pytest.raises(StatusRefusal, match="cannot be reviewed"):
        await recognize(login, "Bearer t")
    reviews.failure = None
    assert (await recognize(login, "Bearer t")).reader == "ada"


def test_the_limit_is_for_a_minute_and_for_a_network_of_ipv6() -> None:
    now = 1000.0
    wrong = WrongTokens(lambda: now)
    for host in range(5):
        wrong.note(f"2001:db8::{host}")
    with pytest.raises(StatusRefusal, match="try again in 61 s"):
        wrong.note("2001:db8::ffff")
    wrong.note("2001:db8:0:1::1")
    wrong.note("::ffff:192.0.2.1")
    wrong.note("not an address")
    now += 60.0
    wrong.note("2001:db8::ffff")


def test_addresses_that_tried_are_not_kept_for_ever() -> None:
    wrong = WrongTokens(lambda: 0.0)
    for _ in range(5):
        wrong.note("first")
    for number in range(4096):
        wrong.note(str(number))
    wrong.note("first")
    for _ in range(4):
        wrong.note("4095")
    with pytest.raises(StatusRefusal, match="5 wrong tokens"):
        wrong.note("4095")


async def follow(
    login: Login, session: LoginSession, stopping: asyncio.Event, *steps: Callable[[], Any]
) -> None:
    """Take steps while a stream is open, and then wait for its end."""
    async with login.while_valid(session, stopping):
        for step in steps:
            step()
            await asyncio.sleep(0.05)
        await asyncio.Event().wait()


async def test_a_stream_ends_when_the_token_is_revoked_and_not_when_nobody_can_say() -> None:
    reviews = Reviews({"t": "ada"})
    login = make_login(reviews, recheck_seconds=0.01)
    session = await login.enter({"token": "t"}, "a")
    steps: list[int] = []

    def be_silent() -> None:
        reviews.failure = StatusRefusal(500, "InternalError", "silent")

    def revoke() -> None:
        steps.append(len(reviews.asked))
        reviews.failure = None
        reviews.known.clear()

    with pytest.raises(StreamOver) as over:
        await follow(login, session, asyncio.Event(), be_silent, revoke)
    assert over.value.expired
    assert steps[0] > 2, "it was asked meanwhile, and the stream went on"


async def test_a_stream_ends_when_the_session_expires_and_when_the_server_stops() -> None:
    token = make_jwt(exp=T0.timestamp() + 0.1)
    login = make_login(Reviews({token: "ada", "t": "ada"}))
    with pytest.raises(StreamOver) as over:
        await follow(login, await login.enter({"token": token}, "a"), asyncio.Event())
    assert over.value.expired
    stopping = asyncio.Event()
    session = await login.enter({"token": "t"}, "a")
    with pytest.raises(StreamOver) as over:
        await follow(login, session, stopping, stopping.set)
    assert not over.value.expired


async def test_other_errors_of_a_stream_stay_what_they_are() -> None:
    login = make_login(Reviews({"t": "ada"}))
    session = await login.enter({"token": "t"}, "a")
    with pytest.raises(TimeoutError):
        async with login.while_valid(session, asyncio.Event()):
            raise TimeoutError
    async with login.while_valid(session, asyncio.Event()):
        pass


@pytest.mark.parametrize(
    "token", ["opaque", "a.b.c", make_jwt(), make_jwt(exp="x"), make_jwt(exp=1e300), "a.W10.c"]
)
def test_a_token_that_does_not_say_when_it_expires(token: str) -> None:
    assert read_expiry(token) is None


def test_the_expiry_of_a_token() -> None:
    assert read_expiry(make_jwt(exp=0)) == datetime(1970, 1, 1, tzinfo=UTC)
