"""Between a program and the API servers: transports whose weather can be anything.

`SimTransport` stands where `kube.transport.Transport` does. Each pair of a process and a cluster
has its `Weather`: usual delays, how often which fault strikes, and whether all is down. What
strikes is drawn from the run's seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from random import Random
from types import TracebackType
from typing import Never

from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import RequestTimeout, TransportError, build_api_error
from multiqueue.kube.transport import ApiRequest, OnWarning, Response
from tests.fleet.api_server import ApiServer, RefusedError
from tests.fleet.history import History
from tests.fleet.paths import parse_path, parse_query
from tests.fleet.pipe import Pipe
from tests.fleet.virtual_loop import WORLD
from tests.fleet.weather import (
    LATE,
    REQUEST_FAULTS,
    WATCH_FAULTS,
    WRITES_ONLY,
    Down,
    Fault,
    Process,
    Weather,
)


class Network:
    """All API servers, and the weather towards each.

    Args:
        chance: Draws faults and delays.
        history: Told of every fault.
    """

    def __init__(self, chance: Random, history: History) -> None:
        self.servers: dict[str, ApiServer] = {}
        self.history = history
        self.chance = chance
        self.requests = 0
        self.muted: dict[Pipe, None] = {}
        self._weather: dict[tuple[str, str], Weather] = {}
        self._pipes: dict[Pipe, None] = {}

    def weather(self, group: str, cluster: str) -> Weather:
        """Return the weather between a group of processes and a cluster."""
        return self._weather.setdefault((group, cluster), Weather())

    def calm(self) -> None:
        """Let all faults end; what was held back arrives."""
        for weather in self._weather.values():
            weather.rates, weather.down, weather.forbidden = {}, None, {}
        for pipe in list(self._pipes):
            if pipe.is_muted:
                pipe.fail(TransportError(f"{pipe.what}: connection reset"))
            pipe.wake()

    def is_silent(self, cluster: str) -> bool:
        """Whether a watch on a cluster has fallen silent."""
        return any(pipe.server.name == cluster for pipe in self.muted)

    def set_down(self, group: str, cluster: str, down: Down | None) -> None:
        """Put a cluster out of reach, or back."""
        weather = self.weather(group, cluster)
        weather.down = down
        for pipe in list(self._pipes):
            if pipe.weather is not weather:
                continue
            if down in {Down.REFUSES, Down.FAILS}:
                pipe.fail(TransportError(f"{pipe.what}: connection reset"))
            else:
                pipe.wake()

    def cut_watches(self, cluster: str) -> None:
        """Break every watch on a cluster."""
        for pipe in list(self._pipes):
            if pipe.server.name == cluster:
                pipe.fail(TransportError(f"{pipe.what}: connection reset"))

    def transport(self, process: Process) -> Callable[..., SimTransport]:
        """Return what opens the transports of a process."""

        def open_transport(
            credentials: Credentials, *, user_agent: str, on_warning: OnWarning
        ) -> SimTransport:
            del user_agent, on_warning
            return SimTransport(self, process, credentials)

        return open_transport

    def add_pipe(self, pipe: Pipe) -> None:
        self._pipes[pipe] = None

    def drop_pipe(self, pipe: Pipe) -> None:
        self._pipes.pop(pipe, None)
        self.muted.pop(pipe, None)


class SimTransport:
    """The requests of one client of one process."""

    def __init__(self, network: Network, process: Process, credentials: Credentials) -> None:
        host = host_of(credentials)
        self._network = network
        self._process = process
        self._credentials = credentials
        self._server = network.servers[host]
        self._weather = network.weather(process.group, host)
        self._closed = False

    async def send(self, request: ApiRequest) -> Response:
        """Send one request through the weather."""
        network, weather = self._network, self._weather
        network.requests += 1
        await self._travel(request)
        fault = self._draw(request, REQUEST_FAULTS) if weather.rates else None
        if fault is None:
            body = await self._reach(request)
            await asyncio.sleep(weather.latency * network.chance.random())
            return Response(200, {}, body)
        network.history.note(
            fault, lambda: f"{self._process.name} {self._server.name} {request.what}"
        )
        return await self._suffer(fault, request)

    async def stream(self, request: ApiRequest) -> AsyncGenerator[list[bytes], None]:
        """Open a watch through the weather."""
        self._network.requests += 1
        await self._travel(request)
        self._check_rights(request)
        weather, network = self._weather, self._network
        fault = self._draw(request, (*REQUEST_FAULTS, *WATCH_FAULTS)) if weather.rates else None
        if fault is not None:
            network.history.note(
                fault, lambda: f"{self._process.name} {self._server.name} {request.what}"
            )
            if fault in REQUEST_FAULTS:
                await self._suffer(fault, request)
        pipe = Pipe(network, self._server, weather, request)
        try:
            pipe.open(fault)
            yield []
            while (lines := await pipe.next()) is not None:
                yield lines
        finally:
            pipe.close()

    def open(self) -> None:
        """Begin, or begin again."""
        self._closed = False

    async def close(self) -> None:
        """Let go."""
        self._closed = True

    # ------------------------------------------------------------ on the way

    async def _travel(self, request: ApiRequest) -> None:
        """Bring a request to the server, where that can be reached."""
        if self._closed:
            raise TransportError("the client is closed")
        await asyncio.sleep(self._weather.latency * self._network.chance.random())
        if not self._process.alive:
            await _forever()
        down = self._weather.down
        if down is Down.HANGS:
            await self._hang(request)
        if down is Down.REFUSES:
            raise TransportError(f"{request.what}: connection refused")
        if down is Down.FAILS:
            raise build_api_error(503, {"reason": "ServiceUnavailable"}, request=request.what)

    async def _hang(self, request: ApiRequest) -> Never:
        """Keep who asks waiting until its time is up, whatever becomes of the weather."""
        self._weather.hanging += 1
        try:
            await asyncio.sleep(request.timeout)
        finally:
            self._weather.hanging -= 1
        raise RequestTimeout(f"{request.what}: no answer within {request.timeout:g} s")

    async def _reach(self, request: ApiRequest) -> bytes:
        """Have the server do it, and bring the answer back."""
        process = self._process
        if request.method != "GET" and process.on_write is not None:
            process.on_write(process, request.target, False)
            if not process.alive:
                await _forever()
        try:
            self._check_rights(request)
            arguments = process.name, request.method, request.target, request.body
            return WORLD.run(self._server.handle, *arguments)
        except RefusedError as error:
            raise build_api_error(
                error.status,
                {"reason": error.reason, "message": str(error), "details": error.details},
                request=request.what,
            ) from None
        finally:
            if request.method != "GET" and process.on_write is not None:
                process.on_write(process, request.target, True)

    def _check_rights(self, request: ApiRequest) -> None:
        resource = parse_path(parse_query(request.target)[0]).resource
        plural = resource.plural if resource is not None else ""
        if (request.method, plural) in self._weather.forbidden:
            raise build_api_error(403, {"reason": "Forbidden"}, request=request.what)
        tokens = self._server.tokens
        authorization = self._credentials.material.authorization
        # Without one it is the cluster's own program.
        if authorization and tokens and authorization.removeprefix("Bearer ") not in tokens:
            raise build_api_error(401, {"reason": "Unauthorized"}, request=request.what)

    def _draw(self, request: ApiRequest, faults: tuple[Fault, ...]) -> Fault | None:
        chance, rates = self._network.chance, self._weather.rates
        is_read = request.method == "GET"
        for fault in faults:
            rate = rates.get(fault)
            if rate and not (is_read and fault in WRITES_ONLY) and chance.random() < rate:
                return fault
        return None

    async def _suffer(self, fault: Fault, request: ApiRequest) -> Response:
        """Let a fault strike a request."""
        chance, what = self._network.chance, request.what
        match fault:
            case Fault.LOST_REQUEST:
                raise TransportError(f"{what}: connection reset")
            case Fault.LOST_ANSWER:
                await self._reach(request)
                raise TransportError(f"{what}: connection reset")
            case Fault.HUNG:
                await self._hang(request)
            case Fault.LATE:
                self._again(request, chance.uniform(0.0, 2 * request.timeout))
                await self._hang(request)
            case Fault.SLOW:
                async with _limit(request):
                    await asyncio.sleep(chance.uniform(0.0, 1.2 * min(10.0, request.timeout)))
                    return Response(200, {}, await self._reach(request))
            case Fault.TWICE:
                self._again(request, chance.uniform(0.0, 5.0))
                return Response(200, {}, await self._reach(request))
            case Fault.THROTTLED:
                wait = chance.choice((None, 1.0, 3.0))
                raise build_api_error(
                    429, {"reason": "TooManyRequests"}, request=what, retry_after=wait
                )
            case Fault.BROKEN_AFTER:
                await self._reach(request)
        status, reason = REFUSALS[fault]
        raise build_api_error(status, {"reason": reason, "message": "simulated"}, request=what)

    def _again(self, request: ApiRequest, seconds: float) -> None:
        """Have the server do it later too, whoever still waits for it."""
        server, actor = self._server, f"{self._process.name}{LATE}"

        def do() -> None:
            try:
                server.handle(actor, request.method, request.target, request.body)
            except RefusedError as error:
                words = f"late {request.what}: {error.status}"
                self._network.history.note("late refused", words)

        asyncio.get_running_loop().call_later(seconds, do)


REFUSALS = {
    Fault.CONFLICT: (409, "Conflict"),
    Fault.GONE: (410, "Expired"),
    Fault.BROKEN: (500, "InternalError"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
    Fault.BROKEN_AFTER: (504, "Timeout"),
}


class _limit:  # noqa: N801 - reads as a word
    """Turns a request that takes too long into a timeout, as the transport would."""

    def __init__(self, request: ApiRequest) -> None:
        self._request = request
        self._timeout = asyncio.timeout(request.timeout)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            request = self._request
            raise RequestTimeout(
                f"{request.what}: no answer within {request.timeout:g} s"
            ) from None


def host_of(credentials: Credentials) -> str:
    """Return the name of the cluster that credentials lead to."""
    return credentials.server.partition("://")[2].partition(".")[0]


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()
