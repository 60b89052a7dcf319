"""Calls admission webhooks with AdmissionReviews."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from multiqueue.embedded.server.admission.webhook_match import MatchedWebhook
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.webhook_transport import WebhookFailed, WebhookTransport

API_VERSION = "admission.k8s.io/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookVerdict:
    """What a webhook said."""

    allowed: bool
    status: Mapping[str, Any] = field(default_factory=dict)
    patch: list[Any] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class WebhookClient:
    """Asks admission webhooks."""

    def __init__(self, transport: WebhookTransport) -> None:
        self._transport = transport

    async def ask(self, webhook: MatchedWebhook, request: JsonObject) -> WebhookVerdict:
        """The webhook's verdict on a request.

        Raises:
            WebhookFailed: it did not answer in time, or not as it should.
        """
        body = orjson.dumps(
            {"kind": "AdmissionReview", "apiVersion": API_VERSION, "request": request}
        )
        try:
            answer = await self._transport.post(
                webhook.client_config, webhook.timeout_seconds, body
            )
        except WebhookFailed as error:
            raise WebhookFailed(f"failed to call webhook: {error}") from error
        return _verdict(answer, request["uid"])


def _verdict(answer: bytes, uid: str) -> WebhookVerdict:
    try:
        review = orjson.loads(answer)
        response = review["response"]
        if response["uid"] != uid:
            raise WebhookFailed(f'expected response.uid="{uid}", got "{response["uid"]}"')
        return WebhookVerdict(
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
