"""Posts reviews to webhooks over HTTPS with the caBundle of each; connections are kept."""

import base64
import binascii
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp

from multiqueue.kube.failure_words import describe_failure

MAX_ANSWER_BYTES = 16 * 1024 * 1024


class WebhookFailed(Exception):  # noqa: N818 - says what happened
    """A webhook gave no usable answer; who asked decides what that means."""


class WebhookTransport:
    """Reaches webhooks by URL, or by Service if the Service is mapped to a URL."""

    def __init__(self, services: Mapping[tuple[str, str], str]) -> None:
        self._services = dict(services)
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    def map_service(self, namespace: str, name: str, url: str) -> None:
        """Say where a Service is reached."""
        self._services[namespace, name] = url

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self, client_config: Mapping[str, Any], timeout_seconds: float, body: bytes
    ) -> bytes:
        """The answer of the webhook that a clientConfig names.

        Raises:
            WebhookFailed: there was none in time, or not a good one.
        """
        url, server_name = self._address(client_config)
        shown = f"{url}?timeout={timeout_seconds:g}s"
        try:
            return await self._post(client_config, url, server_name, timeout_seconds, body)
        except TimeoutError as error:
            why = f"no answer within {timeout_seconds:g}s"
            raise WebhookFailed(f'Post "{shown}": {why}') from error
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise WebhookFailed(f'Post "{shown}": {describe_failure(error)}') from error

    async def _post(
        self,
        client_config: Mapping[str, Any],
        url: str,
        server_name: str | None,
        timeout_seconds: float,
        body: bytes,
    ) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False)
        async with self._session.post(
            url,
            data=body,
            params={"timeout": f"{timeout_seconds:g}s"},
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            ssl=self._context(client_config.get("caBundle") or ""),
            server_hostname=server_name,
            timeout=aiohttp.ClientTimeout(total=timeout_seconds),
            allow_redirects=False,
        ) as response:
            answer = await response.content.read(MAX_ANSWER_BYTES)
            while chunk := await response.content.read(MAX_ANSWER_BYTES):
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise WebhookFailed("the answer is too large")
            if response.status != 200:
                text = answer[:200].decode(errors="replace")
                raise WebhookFailed(
                    f"an error on the server ({text!r}) has prevented the request from succeeding, "
                    f"status {response.status}"
                )
            return answer

    def _address(self, client_config: Mapping[str, Any]) -> tuple[str, str | None]:
        """(URL, TLS server name if it differs)."""
        if url := client_config.get("url"):
            return str(url), None
        service = client_config.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        base = self._services.get((namespace, name))
        if base is None:
            raise WebhookFailed(
                f'service "{namespace}/{name}" is not mapped to a URL on this server'
            )
        path = "/" + (service.get("path") or "").lstrip("/")
        return base.rstrip("/") + path, f"{name}.{namespace}.svc"

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            try:
                authority = base64.b64decode(bundle).decode("ascii") if bundle else None
                context = ssl.create_default_context(cadata=authority)
            except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
                raise WebhookFailed(f"caBundle is not usable: {error}") from error
            self._contexts[bundle] = context
        return context
