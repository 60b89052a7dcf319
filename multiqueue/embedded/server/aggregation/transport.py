"""Requests to backends: TLS both ways, and one session whose connections are kept."""

import base64
import binascii
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
from yarl import URL

from multiqueue.embedded.server.aggregation.backend import Backend
from multiqueue.embedded.server.aggregation.front_proxy import remote_headers
from multiqueue.embedded.server.auth import ApiUser
from multiqueue.kube.certificates import KeyPair
from multiqueue.kube.failure_words import describe_failure
from multiqueue.kube.tls import load_key_pair

CHECK_SECONDS = 5.0
"""Timeout of a check of a backend, as in Kubernetes."""
CONNECT_SECONDS = 10.0
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_CONTEXTS = 64

Headers = Sequence[tuple[str, str]]


class Unreachable(Exception):  # noqa: N818 - says what happened
    """A backend gave no usable answer."""


class ProxyTransport:
    """Sends requests with the certificate of the front proxy."""

    def __init__(self, pair: KeyPair) -> None:
        self._pair = pair
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def send(
        self,
        backend: Backend,
        method: str,
        url: str,
        *,
        headers: Headers,
        body: Any = None,
        seconds: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the answer can be read inside of the block.

        Raises:
            Unreachable: the certificate of the backend cannot be checked against its caBundle.
            aiohttp.ClientError, OSError, TimeoutError: there is no answer.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # watches keep theirs, and block nobody
                cookie_jar=aiohttp.DummyCookieJar(),  # of one user, none of another's business
                auto_decompress=False,
            )
        async with self._session.request(
            method,
            URL(url, encoded=True),
            headers=headers,
            data=body,
            ssl=self._context(backend),
            server_hostname=backend.server_name if url.startswith("https:") else None,
            timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as response:
            yield response

    async def get(
        self, backend: Backend, url: str, user: ApiUser, *, accept: str = "application/json"
    ) -> Any:
        """A JSON document of a backend.

        Raises:
            Unreachable: there is none.
        """
        headers = [*remote_headers(user), ("Accept", accept)]
        try:
            async with self.send(
                backend, "GET", url, headers=headers, seconds=CHECK_SECONDS
            ) as response:
                if not 200 <= response.status < 300:
                    raise Unreachable(f"bad status from {url}: {response.status}")
                return orjson.loads(await _read(response))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unreachable(f'Get "{url}": {describe_failure(error)}') from error

    def _context(self, backend: Backend) -> ssl.SSLContext:
        key = (backend.authority, backend.insecure)
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.clear()  # caBundles of the past
            context = self._contexts[key] = self._build_context(*key)
        return context

    def _build_context(self, authority: str, insecure: bool) -> ssl.SSLContext:  # noqa: FBT001
        try:
            pem = base64.b64decode(authority).decode("ascii") if authority else None
            context = ssl.create_default_context(cadata=pem)
        except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
            raise Unreachable(f"caBundle is not usable: {error}") from error
        if hasattr(ssl, "VERIFY_X509_STRICT"):
            # Python 3.13 demands extensions that many CAs lack; Go does not.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        load_key_pair(context, self._pair.certificate, self._pair.key)
        return context


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_DOCUMENT_BYTES:
            raise Unreachable("the answer is too large")
    return bytes(body)
