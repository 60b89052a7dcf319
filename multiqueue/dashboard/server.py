"""The dashboard beside the manager: a login, and then the page with the rights of its reader.

Every replica serves. The files of the page have nothing of the cluster and are for everybody; all
else needs a session, which the cookies have, or the token that a proxy in front passes on. Parity:
S-30, S-33, S-35, S-36, S-37, S-38.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Collection
from functools import partial

import orjson
import structlog
from aiohttp import web

from multiqueue.api.names import DEFAULT_NAMESPACE
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.dashboard.door import SameOrigin, check_action
from multiqueue.dashboard.login import UNAUTHORIZED, Login
from multiqueue.dashboard.page_actions import KINDS
from multiqueue.dashboard.page_answers import (
    MAX_QUESTION,
    PageAnswers,
    PageReader,
    build_answer,
    build_status,
)
from multiqueue.dashboard.reader_clients import ReaderClients
from multiqueue.dashboard.sealing import CookieSeal, LoginSession, read_cookies, write_cookies
from multiqueue.dashboard.sending import SEND_SECONDS, send_whole
from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.certified_server import CertifiedServer
from multiqueue.kube.clock import Clock
from multiqueue.lib.addresses import is_address
from multiqueue.serving.request import HttpRequest
from multiqueue.serving.server import SHUTDOWN_SECONDS, Bounds
from multiqueue.visibility.refusals import StatusRefusal
from multiqueue.visibility.slots import Slots

LOGIN, LOGOUT = "/login", "/logout"
NAMESPACE_COOKIE = "multiqueue-namespace"
"""The cookie with the namespace that the page of a reader of a proxy asks for; no secret."""
BOUNDS = Bounds(connections=1024, body_bytes=MAX_QUESTION, header_bytes=16 * 1024)
"""The cookies of a long token come in one header, with those of others at the same host."""
MAX_REQUESTS, MAX_REQUESTS_OF_A_READER = 512, 64
"""The limits of concurrent requests and streams; a replica has 400 feeds (S-22)."""
MAX_LOGGED = 253
"""Characters of what a browser sent that are logged: as many as a name has at most."""
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?", re.IGNORECASE)

NoteAction = Callable[[str, str, str, str], None]

log = structlog.get_logger(component="dashboard")


class DashboardServer(CertifiedServer):
    """Serves until stopped.

    Args:
        login: Checks tokens.
        clients: Makes the clients of readers.
        clock: The clock of sessions.
        names: The host names of this server.
        public: The origin that readers see, such as ``https://queue.example.com``; may be empty.
        base: The path that readers see before all others, such as ``/queue``; may be empty.
        host: Where to listen; empty: everywhere.
        port: The port; 0 takes a free one.
        context: The TLS settings.
        drain_seconds: How long requests are answered after the end was asked for.
        send_seconds: How long a reader may take to read an answer, or a part of a stream.
        system_namespace: The manager's namespace.
        acts: Whether readers can take actions.
        proxied: Whether a proxy logs readers in, and passes their tokens on.
        note_action: Is told of each action that was done: kind and key of the object, verb, reader.
    """

    def __init__(  # noqa: PLR0913 - how it is reached, and what it tells to whom
        self,
        login: Login,
        clients: ReaderClients,
        clock: Clock,
        *,
        names: Collection[str],
        public: str = "",
        base: str = "",
        host: str,
        port: int,
        context: ssl.SSLContext,
        drain_seconds: float = 0.0,
        send_seconds: float = SEND_SECONDS,
        system_namespace: str = DEFAULT_NAMESPACE,
        acts: bool = True,
        proxied: bool = False,
        note_action: NoteAction = lambda *_: None,
    ) -> None:
        super().__init__(
            self._answer,
            host=host,
            port=port,
            context=context,
            bounds=BOUNDS,
            drain_seconds=drain_seconds,
            base=base,
        )
        self._drain_seconds = drain_seconds
        self._login = login
        self._clients = clients
        self._clock = clock
        self._seal = CookieSeal()
        self._stopping = asyncio.Event()
        self._slots = Slots(MAX_REQUESTS, MAX_REQUESTS_OF_A_READER)
        told = (
            "the dashboard does not know this host as its own; set dashboard.url in the "
            "configuration of the manager to the address that readers open"
        )
        self._origin = SameOrigin("https", partial(is_own_host, names), told, public=public)
        self._answers = PageAnswers(clock, self._origin, base)
        self._send_seconds = send_seconds
        self._system_namespace = system_namespace
        self._acts = acts
        self._proxied = proxied
        self._note_action = note_action

    @property
    def under_way(self) -> int:
        """The requests of readers that are being answered."""
        return self._slots.under_way

    def show(self, serving: Serving) -> None:
        """Use this certificate from the next connection on, and its key for the cookies."""
        super().show(serving)
        self._seal.use(serving.key, self._clock.now())

    async def stop(self) -> None:
        """End all streams, answer for ``drain_seconds``, finish all actions, then close."""
        self._stopping.set()
        begun = asyncio.get_running_loop().time()
        await super().stop()
        await self._answers.finish(begun + self._drain_seconds + SHUTDOWN_SECONDS)

    async def _answer(self, request: HttpRequest) -> web.StreamResponse:
        try:
            return await self._route(request)
        except StatusRefusal as refusal:
            return build_status(refusal.code, refusal.reason, str(refusal))

    async def _route(self, request: HttpRequest) -> web.StreamResponse:
        refusal = self._origin.check_host(request.headers)
        if refusal is None and request.method == "GET":
            found = self._answers.find_file(request.path)
            if found is not None:  # links from elsewhere may lead here
                return found
        refusal = refusal or self._origin.check_origin(request.headers)
        if refusal is None and request.method == "POST" and request.path in {LOGIN, LOGOUT}:
            refusal = self._origin.check_sent(request.headers, request.content_type)
        if refusal is not None:
            return build_status(403, "Forbidden", refusal.text)
        if request.method == "POST" and request.path == LOGIN and not self._proxied:
            return await self._log_in(request)
        session = await self._find_session(request)
        if request.method == "POST" and request.path == LOGOUT:
            return _log_out(request, session)
        with self._slots.take(session.reader):
            answer = await self._answers.answer(request, self._reader(session))
            if self._server.stopping and not answer.prepared:
                answer.force_close()
            return await send_whole(request, answer, self._send_seconds)  # while the slot is taken

    async def _find_session(self, request: HttpRequest) -> LoginSession:
        """Return who asks.

        Raises:
            StatusRefusal: 401, nobody who is known; 429 or 500 if it cannot be found out.
        """
        now = self._clock.now()
        if self._proxied:
            return await self._login.recognize(
                request.headers.getall("Authorization", []),
                request.cookies.get(NAMESPACE_COOKIE, ""),
                lambda reader: self._seal.derive_action(reader, now),
            )
        session = self._seal.open(read_cookies(request.cookies), now)
        if session is None:
            raise StatusRefusal(UNAUTHORIZED, "Unauthorized", "Unauthorized")
        return session

    async def _log_in(self, request: HttpRequest) -> web.Response:
        address = request.remote or ""
        try:
            asked = orjson.loads(await request.read())
        except (orjson.JSONDecodeError, web.HTTPRequestEntityTooLarge) as error:
            return build_status(400, "BadRequest", f"the body cannot be read: {error}")
        try:
            session = await self._login.enter(asked, address)
            sealed = self._seal.close(session, self._clock.now())
        except ValueError as error:
            return build_status(400, "BadRequest", str(error))
        except StatusRefusal as refusal:
            if refusal.code == UNAUTHORIZED:  # others cost nothing, and could fill the log
                log.info("login refused", address=address)
            raise
        log.info("login", reader=session.reader, address=address)
        seconds = int((session.expires_at - self._clock.now()).total_seconds())
        return _set_cookies(sealed, seconds)

    def _reader(self, session: LoginSession) -> PageReader:
        # Without a time the page knows that a proxy renews the login.
        expires = {} if self._proxied else {"expires": format_time(session.expires_at)}
        return PageReader(
            client=self._clients.open(session.token, session.reader),
            feeds=self._clients.open_feeds(session.token, session.reader),
            about={
                "context": "",
                "namespace": session.namespace,
                "demo": False,
                "login": {"reader": session.reader, **expires},
            },
            action=session.action,
            acts=self._acts,
            valid=partial(self._login.while_valid, session, self._stopping),
            send_seconds=self._send_seconds,
            system_namespace=self._system_namespace,
            acting=partial(self._slots.take, session.reader),  # its own, if the reader leaves
            tell=partial(self._tell, session.reader),
        )

    async def _tell(self, reader: str, request: HttpRequest, status: int) -> None:
        """Log an action that was asked for, and note one that was done. Parity: S-39."""
        try:
            asked = orjson.loads(await request.read())
        except (orjson.JSONDecodeError, web.HTTPException):
            return
        if not isinstance(asked, dict):
            return
        verb, kind, namespace, name = (
            str(asked.get(each) or "")[:MAX_LOGGED]
            for each in ("verb", "kind", "namespace", "name")
        )
        key = f"{namespace}/{name}" if namespace else name
        done = status < 400
        result = "done" if done else f"refused with {status}"
        log.info("action", reader=reader, verb=verb, object=f"{kind} {key}", result=result)
        if done:
            self._note_action(KINDS[kind].resource.kind, key, verb, reader)


def is_own_host(names: Collection[str], host: str) -> bool:
    """Whether a value of ``Host`` names this server: one of its names, or any address.

    Somebody else's name can be made to point here; an address cannot.
    """
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].lower()
    return name == "localhost" or name in names or is_address(name.strip("[]"))


def _set_cookies(sealed: str, seconds: int) -> web.Response:
    answer = build_answer(200, b"{}")
    for cookie in write_cookies(sealed, seconds):
        answer.headers.add("Set-Cookie", cookie)
    return answer


def _log_out(request: HttpRequest, session: LoginSession) -> web.Response:
    refusal = check_action(request.headers, session.action)
    if refusal is not None:
        return build_status(403, "Forbidden", refusal.text)
    return _set_cookies("", 0)
