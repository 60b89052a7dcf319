"""Who may log in: a TokenReview says whose a bearer token is. Parity: S-33, S-35, S-36, S-41.

Deviates: S-35 also takes the name of a user from a proxy with a client certificate. Such a reader
has no token, and the dashboard has no rights of its own that it could use instead.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import ipaddress
import re
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from multiqueue.dashboard.door import KEY_BYTES
from multiqueue.dashboard.page_answers import StreamOver
from multiqueue.dashboard.sealing import LoginSession
from multiqueue.kube.clock import Clock
from multiqueue.visibility.authentication import Authenticator
from multiqueue.visibility.expiring import ExpiringCache
from multiqueue.visibility.refusals import StatusRefusal, bad_request

LONGEST = timedelta(hours=12)
"""How long a login lasts at most; a token that expires earlier ends it."""
MAX_TOKEN = 5000
"""Characters of a token; it has to fit into the cookies of `sealing`."""
MAX_WRONG, WRONG_SECONDS = 5, 60.0
"""How many wrong tokens one address may send in how many seconds."""
MAX_ADDRESSES = 4096
RECHECK_SECONDS = 30.0
"""How often a stream asks whether its token is still valid, as the fleet API does."""
NAME_SECONDS, MAX_NAMES = 300.0, 1024
"""How long, and for how many tokens that a proxy passed on, it is known whose they are.

Only the name is known for so long: the API server checks the token of each request for data.
"""
UNAUTHORIZED = 401

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""The characters of a bearer token (RFC 6750)."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):[^:]+")


class WrongTokens:
    """Limits how many wrong tokens come from one address.

    Args:
        now: A monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tried: OrderedDict[str, deque[float]] = OrderedDict()

    def note(self, address: str) -> None:
        """Note a try; `forget` takes it back if the token is right.

        Raises:
            StatusRefusal: 429, there were too many.
        """
        network = _network_of(address)
        tried, now = self._tried.setdefault(network, deque(maxlen=MAX_WRONG)), self._now()
        self._tried.move_to_end(network)
        if len(tried) == MAX_WRONG and tried[0] > now - WRONG_SECONDS:
            seconds = int(tried[0] + WRONG_SECONDS - now) + 1
            raise StatusRefusal(
                429,
                "TooManyRequests",
                f"{MAX_WRONG} wrong tokens came from your address; try again in {seconds} s",
            )
        tried.append(now)
        if len(self._tried) > MAX_ADDRESSES:
            self._tried.popitem(last=False)

    def forget(self, address: str) -> None:
        """Take back the newest try."""
        tried = self._tried.get(_network_of(address))
        if tried:
            tried.pop()


class Login:
    """Checks tokens at the login, with requests that a proxy passes on, and while streams are open.

    Args:
        authenticator: Reviews tokens.
        clock: The clock of sessions.
        recheck_seconds: How often a stream asks whether its token is still valid.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        clock: Clock,
        *,
        recheck_seconds: float = RECHECK_SECONDS,
    ) -> None:
        self._clock = clock
        self._recheck_seconds = recheck_seconds
        self._authenticator = authenticator
        self._wrong = WrongTokens(asyncio.get_running_loop().time)
        self._names: ExpiringCache[bytes, str] = ExpiringCache(
            seconds=NAME_SECONDS, limit=MAX_NAMES
        )

    async def enter(self, asked: object, address: str) -> LoginSession:
        """Return the session of a reader.

        Args:
            asked: ``{"token": ..., "namespace": ...}``; the namespace may be missing.
            address: Where the request comes from.

        Raises:
            StatusRefusal: 400; 401, the token is wrong; 429; 500 if the API server cannot say.
        """
        token, namespace = _read_form(asked)
        self._wrong.note(address)
        try:
            name = await self._find_name(
                token, "the API server does not know this token, or it has expired; make a new one"
            )
        except StatusRefusal as refusal:
            if refusal.code != UNAUTHORIZED:
                self._wrong.forget(address)
            raise
        self._wrong.forget(address)
        action = secrets.token_urlsafe(KEY_BYTES)
        return self._open_session(token, name, namespace, action)

    async def recognize(
        self, authorization: Sequence[str], namespace: str, action_of: Callable[[str], str]
    ) -> LoginSession:
        """Return the session of a reader whose token a proxy passed on.

        The proxy logs its readers in and shares one address, so wrong tokens are not counted here.

        Args:
            authorization: The headers of that name.
            namespace: What the reader chose; may be anything.
            action_of: Returns what the page of a reader sends with each action.

        Raises:
            StatusRefusal: 401; 429; 500 if the API server cannot say.
        """
        scheme, _, token = (authorization[0] if len(authorization) == 1 else "").partition(" ")
        if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token):
            raise _unauthorized(
                "this page is for readers whom a proxy logs in: it has to pass the ID token of its "
                "user on, in one header `Authorization: Bearer …` (dashboard.auth.mode)"
            )
        expires_at = read_expiry(token)
        if expires_at is not None and expires_at <= self._clock.now():
            raise _unauthorized(
                "the token that the proxy passed on has expired; the proxy has to renew it, or to "
                "ask its user to log in again"
            )
        key = hashlib.sha256(token.encode()).digest()
        name = self._names.get(key)
        if name is None:
            name = await self._find_name(
                token,
                "the API server does not know the token that the proxy passed on: it has to be an "
                "ID token whose issuer and audience the API server trusts",
            )
            self._names.put(key, name)
        chosen = namespace if _NAMESPACE.fullmatch(namespace) else ""
        return self._open_session(token, name, chosen, action_of(name))

    def _open_session(self, token: str, name: str, namespace: str, action: str) -> LoginSession:
        account = _ACCOUNT.fullmatch(name)
        latest = self._clock.now() + LONGEST
        return LoginSession(
            token=token,
            reader=name,
            namespace=namespace or (account[1] if account else ""),
            action=action,
            expires_at=min(read_expiry(token) or latest, latest),
        )

    @asynccontextmanager
    async def while_valid(
        self, session: LoginSession, stopping: asyncio.Event
    ) -> AsyncGenerator[None, None]:
        """End the block if the session expires, its token is revoked, or the server stops.

        Raises:
            StreamOver: one of these happened.
        """
        left = (session.expires_at - self._clock.now()).total_seconds()
        try:
            async with asyncio.timeout(left) as scope:
                watch = asyncio.create_task(
                    self._watch(session, stopping, scope), name="dashboard session"
                )
                try:
                    yield
                finally:
                    watch.cancel()
                    await asyncio.wait({watch})
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise StreamOver(expired=not stopping.is_set()) from error

    async def _watch(
        self, session: LoginSession, stopping: asyncio.Event, scope: asyncio.Timeout
    ) -> None:
        while await self._is_known(session) and not await _came(stopping, self._recheck_seconds):
            pass
        scope.reschedule(asyncio.get_running_loop().time())

    async def _is_known(self, session: LoginSession) -> bool:
        try:
            await self._find_name(session.token)
        except StatusRefusal as refusal:
            return refusal.code != UNAUTHORIZED  # an API server that is silent revokes nothing
        return True

    async def _find_name(self, token: str, unknown: str = "") -> str:
        header = ("authorization", f"Bearer {token}")
        try:
            return (await self._authenticator.authenticate(None, [header])).name
        except StatusRefusal as refusal:
            raise _unauthorized(unknown) if refusal.code == UNAUTHORIZED else refusal from None


def read_expiry(token: str) -> datetime | None:
    """Return when a JWT says that it expires; None if it is none, or does not say so.

    Nothing is believed because of it: the API server decides about each request.
    """
    try:
        _, payload, _ = token.split(".")
        found = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(found["exp"], UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError, binascii.Error):
        return None


def _unauthorized(text: str) -> StatusRefusal:
    return StatusRefusal(UNAUTHORIZED, "Unauthorized", text)


def _read_form(asked: object) -> tuple[str, str]:
    form: Mapping[str, Any] = asked if isinstance(asked, dict) else {}
    token, namespace = form.get("token"), form.get("namespace") or ""
    if not isinstance(token, str) or not token.strip():
        raise bad_request("token: enter a bearer token, such as `kubectl create token NAME` prints")
    token = token.strip()
    if len(token) > MAX_TOKEN:
        raise bad_request(f"token: it has {len(token)} characters, and {MAX_TOKEN} are the limit")
    if not _TOKEN.fullmatch(token):
        raise bad_request("token: this is no bearer token: it has a space, a quote or the like")
    if not isinstance(namespace, str) or (namespace and not _NAMESPACE.fullmatch(namespace)):
        raise bad_request(
            "namespace: this is no name of a namespace; leave it empty, or correct it"
        )
    return token, namespace


def _network_of(address: str) -> str:
    """Return what counts as one address: of IPv6 one reader has at least a network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address


async def _came(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, but not for long; tell whether it came."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
