"""Tokens of the manager's account on a worker; each ends when its Secret is deleted."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.validation.access import mapping, text
from multiqueue.cli.errors import CliError
from multiqueue.cli.projection.waiting import wait_for
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import SECRETS, SERVICE_ACCOUNTS
from multiqueue.projection.registration import anchor_manifest, anchor_selector, token_request
from multiqueue.projection.worker_role import ACCOUNT, ACCOUNT_NAMESPACE

FILL_SECONDS = 30.0
"""How long a cluster may take to put a token into a Secret."""
_LEGACY_CLAIM = "kubernetes.io/serviceaccount/secret.name"
SHORTER = 0.9
"""Servers may shorten a lifetime; below this part of the requested one, the user is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, and the Secret with which it ends; never shown."""

    value: str = field(repr=False)
    anchor: str
    expires_at: datetime | None


async def issue_token(
    worker: KubeClient,
    name: str,
    origin: str,
    *,
    lifetime: timedelta | None,
    on_note: Callable[[str], None],
) -> Token:
    """Issue a token of the account.

    Args:
        worker: The worker's client, as its administrator.
        name: The name of the MultiKueueCluster.
        origin: The uid of the manager's kube-system.
        lifetime: The lifetime; None: as long as the Secret exists.
        on_note: Gets a message if the server changed the request.

    Raises:
        CliError: the cluster issued no token.
    """
    manifest = anchor_manifest(name, origin, long_lived=lifetime is None)
    anchor: dict[str, Any] = await worker.create(SECRETS, manifest, namespace=ACCOUNT_NAMESPACE)
    if lifetime is None:
        return await _wait_for_token(worker, anchor["metadata"]["name"])
    seconds = int(lifetime.total_seconds())
    path = SERVICE_ACCOUNTS.path(ACCOUNT_NAMESPACE, ACCOUNT, "token")
    answer = await worker.request("POST", path, body=token_request(anchor, seconds))
    status = orjson.loads(answer.body)["status"]
    expires_at = parse_time(status["expirationTimestamp"])
    created = parse_time(anchor["metadata"]["creationTimestamp"])
    assert expires_at is not None
    assert created is not None
    given = expires_at - created
    if given.total_seconds() < SHORTER * seconds:
        on_note(
            f"warning: asked for a token of {seconds // 3600} h, and the cluster gave one of "
            f"{int(given.total_seconds()) // 3600} h; rotate it before that"
        )
    return Token(value=status["token"], anchor=anchor["metadata"]["name"], expires_at=expires_at)


async def _wait_for_token(worker: KubeClient, anchor: str) -> Token:
    def has_token(secret: dict[str, Any]) -> bool:
        return bool(mapping(secret, "data").get("token"))

    try:
        async with asyncio.timeout(FILL_SECONDS):
            secret = await wait_for(worker, SECRETS, anchor, has_token, namespace=ACCOUNT_NAMESPACE)
    except TimeoutError as error:
        await withdraw(worker, anchor)
        raise CliError("the cluster puts no tokens into Secrets; leave out --long-lived") from error
    value = base64.b64decode(secret["data"]["token"]).decode()
    return Token(value=value, anchor=anchor, expires_at=None)


def anchor_of(token: str) -> str:
    """Return the Secret to which a token is bound; empty if it names none."""
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return ""
    bound = mapping(claims, "kubernetes.io", "secret").get("name")
    return text(bound) or text(mapping(claims).get(_LEGACY_CLAIM))


async def withdraw_former(
    worker: KubeClient, name: str, origin: str, *, newest: str, former: str
) -> list[str]:
    """End the tokens that were issued earlier, except the one in use until now.

    Args:
        worker: The worker's client, as its administrator.
        name: The name of the MultiKueueCluster.
        origin: The uid of the manager's kube-system; tokens of other managers stay.
        newest: The Secret of the new token.
        former: The Secret of the manager's former token; a request with it may be in progress.

    Returns:
        The deleted Secrets.
    """
    listed = await worker.list(
        SECRETS, namespace=ACCOUNT_NAMESPACE, label_selector=anchor_selector(name, origin)
    )
    names = sorted(obj["metadata"]["name"] for obj in listed.items)
    gone = [anchor for anchor in names if anchor not in {newest, former}]
    for anchor in gone:
        await withdraw(worker, anchor)
    return gone


async def withdraw(worker: KubeClient, anchor: str) -> None:
    """End a token by deleting its Secret."""
    with contextlib.suppress(NotFound):
        await worker.delete(SECRETS, anchor, namespace=ACCOUNT_NAMESPACE)
