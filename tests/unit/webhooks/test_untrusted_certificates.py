"""Certificates that the API server does not trust: no write fails, and the reason is told."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api.config import Configuration, load_configuration
from multiqueue.api.crd import load_crds
from multiqueue.api.names import WEBHOOK_PROBLEM
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube import certificates
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import (
    CRDS,
    JOBS,
    MUTATING_WEBHOOKS,
    RESOURCE_FLAVORS,
    VALIDATING_WEBHOOKS,
)
from multiqueue.webhooks.conversion_registration import DEFINITIONS
from multiqueue.webhooks.registration import MUTATING_NAME, VALIDATING_NAME
from tests.webhook_world import WebhookWorld, job, kueue, webhook_world

NOW = datetime.now(UTC)
OURS, OTHER = (certificates.create_authority(name, NOW) for name in ("ours", "other"))
CONFIGURATIONS = ((MUTATING_WEBHOOKS, MUTATING_NAME), (VALIDATING_WEBHOOKS, VALIDATING_NAME))


def write_files(
    directory: Path,
    *,
    authority: bytes = b"",
    hosts: tuple[str, ...] = ("127.0.0.1",),
    signed_at: datetime = NOW,
) -> Configuration:
    """Files of a certificate that our authority signed, as somebody else mounts them."""
    pair = certificates.issue_certificate(OURS, hosts[0], hosts, signed_at)
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)
    (directory / "ca.crt").write_bytes(authority)
    return load_configuration(
        f"""
        webhook: {{host: 127.0.0.1, port: 0, certDir: {directory}}}
        internalCertManagement: {{enable: false}}
        """
    )


@contextlib.asynccontextmanager
async def running(config: Configuration) -> AsyncIterator[WebhookWorld]:
    async with ApiServer(ServerOptions(crds=load_crds(), tls=False)) as server:
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        async with webhook_world(credentials, config) as world:
            yield world


async def policies(client: KubeClient) -> dict[str, str]:
    """Of the webhooks that matter when nobody answers."""
    found = [await client.get(resource, name) for resource, name in CONFIGURATIONS]
    return {
        hook["name"]: hook["failurePolicy"]
        for each in found
        for hook in each["webhooks"]
        if hook["timeoutSeconds"] == 10
    }


async def told(client: KubeClient) -> list[str]:
    """What each configuration says of itself; empty where it says nothing."""
    found = [await client.get(resource, name) for resource, name in CONFIGURATIONS]
    found += [await client.get(CRDS, name) for name in DEFINITIONS]
    return [(each["metadata"].get("annotations") or {}).get(WEBHOOK_PROBLEM, "") for each in found]


def problem_metrics(world: WebhookWorld) -> dict[str, float | None]:
    value = world.context.metrics.registry.get_sample_value
    return {
        name: value("multiqueue_webhook_problem", {"registration": name})
        for name in ("admission", "conversion")
    }


async def inject(client: KubeClient, bundle: bytes) -> None:
    """Put an authority into everything that is registered, as cert-manager does."""
    text = base64.b64encode(bundle).decode()
    for resource, name in CONFIGURATIONS:
        hooks = (await client.get(resource, name))["webhooks"]
        for hook in hooks:
            hook["clientConfig"]["caBundle"] = text
        await client.patch(resource, name, {"webhooks": hooks})
    conversion = {"conversion": {"webhook": {"clientConfig": {"caBundle": text}}}}
    for name in DEFINITIONS:
        await client.patch(CRDS, name, {"spec": conversion})


async def assert_writes_pass(client: KubeClient) -> None:
    await client.create(RESOURCE_FLAVORS, kueue("ResourceFlavor", "f", {}))
    await client.create(JOBS, job("j", "q"), namespace="team")


async def assert_guarded(world: WebhookWorld) -> None:
    """Everything is strict, nothing is complained of, and the API server asks."""
    assert set((await policies(world.client)).values()) == {"Fail"}
    assert set(await told(world.client)) == {""}
    assert problem_metrics(world) == {"admission": 0, "conversion": 0}
    flavor = await world.client.create(RESOURCE_FLAVORS, kueue("ResourceFlavor", "asked", {}))
    assert flavor["metadata"]["finalizers"]


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "nobody injected the authority": ({}, "there is no caBundle"),
    "ca.crt is of an older authority": ({"authority": OTHER.certificate}, "unable to get local"),
    "ca.crt is no certificate": ({"authority": b"authority"}, "the caBundle cannot be read"),
    "the certificate is for another host": (
        {"authority": OURS.certificate, "hosts": ("webhook.example.com",)},
        "not valid for '127.0.0.1'",
    ),
    "the certificate has expired": (
        {"authority": OURS.certificate, "signed_at": NOW - timedelta(days=500)},
        "expired",
    ),
}


@pytest.mark.parametrize(("files", "why"), CASES.values(), ids=CASES)
async def test_what_would_not_be_trusted_fails_no_write(
    tmp_path: Path, files: dict[str, Any], why: str
) -> None:
    async with running(write_files(tmp_path, **files)) as world:
        await assert_writes_pass(world.client)
        assert set((await policies(world.client)).values()) == {"Ignore"}
        assert all(why in text for text in await told(world.client)), await told(world.client)
        assert problem_metrics(world) == {"admission": 1, "conversion": 1}


async def test_the_right_authority_makes_it_strict_again(tmp_path: Path) -> None:
    async with running(write_files(tmp_path)) as world:
        await inject(world.client, OURS.certificate)
        await world.service.look_after_once()
        await assert_guarded(world)


async def test_an_authority_that_is_replaced_by_a_wrong_one_fails_no_write(tmp_path: Path) -> None:
    config = write_files(tmp_path, authority=OURS.certificate)
    (tmp_path / "ca.crt").unlink()
    async with running(config) as world:
        await inject(world.client, OURS.certificate)
        await world.service.look_after_once()
        await assert_guarded(world)
        await inject(world.client, OTHER.certificate)
        await world.service.look_after_once()
        await assert_writes_pass(world.client)


async def test_an_injected_authority_is_kept_where_that_of_the_files_is_wrong(
    tmp_path: Path,
) -> None:
    async with running(write_files(tmp_path, authority=OTHER.certificate)) as world:
        await inject(world.client, OURS.certificate)
        await world.service.look_after_once()
        await assert_guarded(world)


async def test_our_own_certificates_are_trusted() -> None:
    config = load_configuration("webhook: {host: 127.0.0.1, port: 0}")
    async with running(config) as world:
        await assert_guarded(world)
