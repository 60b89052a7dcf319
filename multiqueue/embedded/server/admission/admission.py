"""Admission: calls the webhooks whose configuration matches an operation.

Mutating webhooks run one after the other, by name of their configuration. One runs again if its
reinvocation policy allows it and a later one changed the object. Validating webhooks run
concurrently.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from multiqueue.embedded.server.admission.webhook_client import WebhookClient, WebhookVerdict
from multiqueue.embedded.server.admission.webhook_match import (
    ConditionError,
    Match,
    MatchedWebhook,
    WebhookReview,
    compile_webhooks,
    find_match,
)
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.status import StatusError, bad_request, forbidden, internal_error
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.webhook_transport import WebhookFailed, WebhookTransport

MUTATING = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
VALIDATING = ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
HARMLESS_SIDE_EFFECTS = {"None", "NoneOnDryRun"}

log = structlog.get_logger(__name__)


class WebhookAdmission:
    """Finds the webhooks that match an operation, and calls them."""

    def __init__(self, store: ObjectStore, transport: WebhookTransport) -> None:
        self._store = store
        self._client = WebhookClient(transport)
        self._compiled_from: tuple[int, int] = (-1, -1)
        self._mutating: tuple[MatchedWebhook, ...] = ()
        self._validating: tuple[MatchedWebhook, ...] = ()

    def concerns(self, review: WebhookReview) -> bool:
        """Whether any webhook may match; the fast path skips all others."""
        self._compile()
        if review.target.kind.group == MUTATING[0]:
            return False  # no webhook may block changes of the webhook configurations
        hooks = (*self._mutating, *self._validating)
        return any(find_match(hook, review) is not None for hook in hooks)

    async def mutate(self, call: Call, review: WebhookReview) -> JsonObject | None:
        """Return the object after mutating webhooks; None if it is unchanged.

        Raises:
            StatusError: a webhook denied the operation, or failed and may not be ignored.
        """
        original = review.obj
        changed_by: list[MatchedWebhook] = []
        asked: list[Match] = []
        for match in self._matches(self._mutating, review):
            review, changed = await self._mutate_once(call, review, match)
            asked.append(match)
            if changed:
                changed_by.append(match.webhook)
        for match in asked:
            others = [hook for hook in changed_by if hook is not match.webhook]
            if match.webhook.reinvoke and others:
                review, _ = await self._mutate_once(call, review, match)
        return review.obj if review.obj is not original else None

    async def validate(self, call: Call, review: WebhookReview) -> None:
        """Call validating webhooks.

        Raises:
            StatusError: the first refusal, in the order of the configurations.
        """
        matches = self._matches(self._validating, review)
        if not matches:
            return
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._verdict(call, review, match)) for match in matches]
        for outcome in (task.result() for task in tasks):
            if isinstance(outcome, StatusError):
                raise outcome

    async def _mutate_once(
        self, call: Call, review: WebhookReview, match: Match
    ) -> tuple[WebhookReview, bool]:
        verdict = await self._verdict(call, review, match)
        if isinstance(verdict, StatusError):
            raise verdict
        if verdict is None or not verdict.patch:
            return review, False
        try:
            patched = match.patched(review, verdict.patch)
        except ValueError as error:
            raise _failed(match.webhook, f"the patch could not be applied: {error}") from error
        return (review, False) if patched == review.obj else (replace(review, obj=patched), True)

    async def _verdict(
        self, call: Call, review: WebhookReview, match: Match
    ) -> WebhookVerdict | StatusError | None:
        """Return a webhook's answer; None if it does not match, or failed with policy Ignore."""
        hook = match.webhook
        request = match.request(call, review)
        try:
            if not hook.is_concerned(request):
                return None
        except ConditionError as error:
            log.warning("match conditions failed", webhook=hook.name, error=str(error))
            if hook.ignore_failures:
                return None
            return forbidden(review.target.kind, request["name"], str(error))
        if call.dry_run and hook.side_effects not in HARMLESS_SIDE_EFFECTS:
            return bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            verdict = await self._client.ask(hook, request)
        except WebhookFailed as error:
            if hook.ignore_failures:
                log.warning(
                    "admission webhook failed, ignored", webhook=hook.name, error=str(error)
                )
                return None
            return _failed(hook, str(error))
        for warning in verdict.warnings:
            call.warn(warning)
        return verdict if verdict.allowed else _denied(hook, verdict.status)

    def _matches(self, hooks: Iterable[MatchedWebhook], review: WebhookReview) -> list[Match]:
        found = (find_match(hook, review) for hook in hooks)
        return [
            match for match in found if match is not None and match.selects(self._store, review)
        ]

    def _compile(self) -> None:
        """Read the configurations again if one of them changed."""
        mutating, validating = self._store.collection(MUTATING), self._store.collection(VALIDATING)
        state = (mutating.changes, validating.changes)
        if state != self._compiled_from:
            self._mutating = compile_webhooks(each.decode() for each in mutating.entries())
            self._validating = compile_webhooks(each.decode() for each in validating.entries())
            self._compiled_from = state


def _failed(hook: MatchedWebhook, why: str) -> StatusError:
    return internal_error(f'failed calling webhook "{hook.name}": {why}')


def _denied(hook: MatchedWebhook, status: Mapping[str, Any]) -> StatusError:
    code = status.get("code") or 0
    reason = status.get("reason") or ""
    denied = f'admission webhook "{hook.name}" denied the request'
    why = status.get("message") or reason
    return StatusError(
        max(code, 400),
        reason,
        f"{denied}: {why}" if why else f"{denied} without explanation",
        details=status.get("details"),
    )
