"""The HTTPS server of webhooks and of the visibility API."""

from __future__ import annotations

import ssl

from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.tls import load_key_pair
from multiqueue.serving.server import Bounds, Handler, HttpServer


class CertifiedServer:
    """An HTTP server whose certificate can change while connections are open."""

    def __init__(
        self,
        handler: Handler,
        *,
        host: str,
        port: int,
        context: ssl.SSLContext,
        bounds: Bounds,
        drain_seconds: float,
        base: str = "",
    ) -> None:
        self._context = context
        self._server = HttpServer(
            handler,
            host=host,
            port=port,
            context=context,
            bounds=bounds,
            drain_seconds=drain_seconds,
            base=base,
        )
        self._shown = b""

    @property
    def port(self) -> int:
        """The port that is listened on, once started."""
        return self._server.port

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._server.connections

    def show(self, serving: Serving) -> None:
        """Use this certificate from the next connection on.

        Raises:
            ssl.SSLError, ValueError: certificate and key are unusable, or not a pair; the previous
                certificate stays in use.
        """
        if serving.certificate != self._shown:
            load_key_pair(self._context, serving.certificate, serving.key)
            self._shown = serving.certificate

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        await self._server.start()

    async def stop(self) -> None:
        """Answer for ``drain_seconds``, finish requests in progress, then close."""
        await self._server.stop()
