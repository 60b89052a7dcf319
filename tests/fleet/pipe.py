"""The answer of a watch on its way: late, cut, silent, or told twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from multiqueue.kube.errors import RequestTimeout, TransportError, build_api_error
from multiqueue.kube.transport import ApiRequest
from tests.fleet.api_server import ApiServer, RefusedError
from tests.fleet.paths import parse_query
from tests.fleet.watches import Watch
from tests.fleet.weather import Down, Fault, Weather

if TYPE_CHECKING:
    from tests.fleet.network import Network


class Pipe:
    """What a watch's answer flows through."""

    def __init__(
        self, network: Network, server: ApiServer, weather: Weather, request: ApiRequest
    ) -> None:
        self.server = server
        self.weather = weather
        self.what = request.what
        self._network = network
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._watch: Watch | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._due: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._ended = False
        self._lag = 0.0
        self.is_muted = False

    def open(self, fault: Fault | None) -> None:
        """Begin to watch."""
        chance, request = self._network.chance, self._request
        target = request.target
        if fault is Fault.WATCH_REPLAYED:
            target = _rewind(target, chance.randrange(1, 30))
        try:
            self._watch = self.server.watch(target, self._on_line)
        except RefusedError as error:
            raise build_api_error(
                error.status, {"reason": error.reason, "message": str(error)}, request=self.what
            ) from None
        self._network.add_pipe(self)
        seconds = float(parse_query(request.target)[1].get("timeoutSeconds", 300))
        self._timers.append(self._loop.call_later(seconds, self._end))
        match fault:
            case Fault.WATCH_STALE:
                self._lag = chance.uniform(1.0, 40.0)
            case Fault.WATCH_SILENT:
                self.is_muted = True
                self._network.muted[self] = None
            case Fault.WATCH_CUT | Fault.WATCH_GONE:
                end = (
                    TransportError(f"{self.what}: connection reset")
                    if fault is Fault.WATCH_CUT
                    else build_api_error(410, {"reason": "Expired"}, request=self.what)
                )
                cut = self._loop.call_later(chance.uniform(0.0, 60.0), self.fail, end)
                self._timers.append(cut)
        if self._watch.lines:
            self._on_line()

    async def next(self) -> list[bytes] | None:
        """Return the next lines; None at the end.

        Raises:
            KubeError: the connection broke.
        """
        assert self._watch is not None
        while True:
            if self._error is not None:
                raise self._error
            if self._watch.lines and self._due is None and not self._is_held:
                lines, self._watch.lines = self._watch.lines, []
                return lines
            if self._ended:
                return None
            self._waiter = self._loop.create_future()
            await self._waiter

    @property
    def _is_held(self) -> bool:
        return self.is_muted or self.weather.down is Down.HANGS

    def wake(self) -> None:
        """Look again: something came, or nothing holds it back any more."""
        self._due = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """Break the connection."""
        self._error = error
        self.wake()

    def close(self) -> None:
        """Leave."""
        if self._watch is not None:
            self._watch.close()
        for timer in (*self._timers, *filter(None, (self._due,))):
            timer.cancel()
        self._network.drop_pipe(self)

    def _on_line(self) -> None:
        if self._due is None:
            delay = self._lag + self.weather.latency * self._network.chance.random()
            self._due = self._loop.call_later(delay, self.wake)

    def _end(self) -> None:
        """Let the server end the stream; where it cannot be heard, silence lasts too long."""
        if self._is_held:
            silence = RequestTimeout(f"{self.what}: silence")
            self._timers.append(self._loop.call_later(15.0, self.fail, silence))
            return
        assert self._watch is not None
        self._watch.lines.append(self.server.bookmark())
        self._ended = True
        self.wake()


def _rewind(target: str, versions: int) -> str:
    """Return the target of a watch that begins earlier than was asked."""
    version = int(parse_query(target)[1].get("resourceVersion") or 0)
    return target.replace(
        f"resourceVersion={version}", f"resourceVersion={max(1, version - versions)}"
    )
