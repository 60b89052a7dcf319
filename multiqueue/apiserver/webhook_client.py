"""Speaks AdmissionReview over HTTPS."""

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from multiqueue.apiserver.kinds import JsonObject
from multiqueue.apiserver.webhook_match import Webhook
from multiqueue.kube.failure_words import describe_failure

API_VERSION = "admission.k8s.io/v1"
MAX_ANSWER_BYTES = 16 * 1024 * 1024


class WebhookFailed(Exception):  # noqa: N818 - says what happened
    """A webhook gave no usable answer; its failurePolicy decides what that means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a webhook said."""

    allowed: bool
    status: Mapping[str, Any] = field(default_factory=dict)
    patch: list[Any] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class WebhookClient:
    """Asks webhooks, each over its own TLS trust; connections are kept."""

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

    async def ask(self, webhook: Webhook, request: JsonObject) -> Verdict:
        """The webhook's verdict on a request.

        Raises:
            WebhookFailed: it did not answer in time, or not as it should.
        """
        url, server_name = self._address(webhook.client_config)
        body = orjson.dumps(
            {"kind": "AdmissionReview", "apiVersion": API_VERSION, "request": request}
        )
        try:
            answer = await self._post(webhook, url, server_name, body)
        except TimeoutError as error:
            seconds = f"{webhook.timeout_seconds:g}s"
            raise WebhookFailed(
                f'failed to call webhook: Post "{url}": no answer within {seconds}'
            ) from error
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            why = describe_failure(error)
            raise WebhookFailed(f'failed to call webhook: Post "{url}": {why}') from error
        return _verdict(answer, request["uid"])

    async def _post(
        self, webhook: Webhook, url: str, server_name: str | None, body: bytes
    ) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False)
        async with self._session.post(
            url,
            data=body,
            params={"timeout": f"{webhook.timeout_seconds:g}s"},
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            ssl=self._context(webhook.client_config.get("caBundle") or ""),
            server_hostname=server_name,
            timeout=aiohttp.ClientTimeout(total=webhook.timeout_seconds),
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
                f'failed to call webhook: service "{namespace}/{name}" is not mapped to a URL on '
                "this server"
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


def _verdict(answer: bytes, uid: str) -> Verdict:
    try:
        review = orjson.loads(answer)
        response = review["response"]
        if response["uid"] != uid:
            raise WebhookFailed(f'expected response.uid="{uid}", got "{response["uid"]}"')
        return Verdict(
            allowed=response["allowed"] is True,
            status=response.get("status") or {},
            patch=_patch(response),
            warnings=[str(text) for text in response.get("warnings") or ()],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WebhookFailed(f"received invalid webhook response: {error}") from error


def _patch(response: Mapping[str, Any]) -> list[Any]:
    encoded = response.get("patch")
    if not encoded:
        return []
    if response.get("patchType") != "JSONPatch":
        raise ValueError(f'webhook returned response.patchType "{response.get("patchType")}"')
    patch = orjson.loads(base64.b64decode(encoded))
    if not isinstance(patch, list):
        raise TypeError("the patch is not a list of operations")
    return patch
