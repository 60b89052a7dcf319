"""Certificates change under live connections, and nobody loses trust on the way."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import orjson
import pytest
from cryptography import x509

from multiqueue.api.config import load_configuration
from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube import certificates
from multiqueue.kube.certificate_bundle import Bundle, encode_secret
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import CRDS, MUTATING_WEBHOOKS, NAMESPACES, SECRETS
from multiqueue.webhooks import setup
from tests.webhook_world import WebhookWorld, until_true, webhook_world

NOW = datetime.now(UTC)
CONFIG = load_configuration("webhook: {host: 127.0.0.1, port: 0}")
JSON = {"Content-Type": "application/json"}
REVIEW = orjson.dumps(
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "1", "desiredAPIVersion": "kueue.x-k8s.io/v1beta2", "objects": []},
    }
)


class SetClock:
    """Stands still until it is set."""

    def __init__(self, now: datetime) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time


def bundle_of_an_old_authority() -> Bundle:
    """Good for connections today; the authority is due for renewal."""
    authority = certificates.create_authority("old", NOW - timedelta(days=3000))
    hosts = setup.serving_hosts(CONFIG, "127.0.0.1")
    serving = certificates.issue_certificate(authority, hosts[0], hosts, NOW)
    return Bundle(
        authority=authority.certificate,
        authority_key=authority.key,
        certificate=serving.certificate,
        certificate_key=serving.key,
    )


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[tuple[Credentials, KubeClient]]:
    async with ApiServer(ServerOptions(crds=load_crds(), tls=False)) as server:
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        async with KubeClient(credentials, user_agent="test") as client:
            yield credentials, client


def trust(authority: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.decode())


async def ask(session: aiohttp.ClientSession, world: WebhookWorld, authority: bytes) -> int:
    url = f"https://127.0.0.1:{world.service.server.port}/convert"
    async with session.post(url, data=REVIEW, headers=JSON, ssl=trust(authority)) as answer:
        return answer.status


async def registered_authorities(client: KubeClient) -> set[bytes]:
    hooks = (await client.list(MUTATING_WEBHOOKS)).items[0]["webhooks"]
    crds = (await client.list(CRDS)).items
    configs = [hook["clientConfig"] for hook in hooks]
    conversions = [crd["spec"]["conversion"] for crd in crds]
    configs += [each["webhook"]["clientConfig"] for each in conversions if "webhook" in each]
    return {base64.b64decode(config["caBundle"]) for config in configs}


async def test_a_new_authority_takes_over_without_a_restart_or_a_gap() -> None:
    old = bundle_of_an_old_authority()
    clock = SetClock(NOW - timedelta(days=2000))
    secret = encode_secret(old, namespace="kueue-system", name="kueue-webhook-server-cert")
    async with cluster() as (credentials, client):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
        await client.create(NAMESPACES, namespace)
        await client.create(SECRETS, secret, namespace="kueue-system")
        async with (
            webhook_world(credentials, CONFIG, clock=clock) as world,
            aiohttp.ClientSession() as early,
        ):
            assert await registered_authorities(client) == {old.authority}
            context = trust(old.authority)
            url = f"https://127.0.0.1:{world.service.server.port}/convert"
            async with early.post(url, data=REVIEW, headers=JSON, ssl=context) as answer:
                assert answer.status == 200
            clock.time = NOW
            await world.service.look_after_once()
            async with early.post(url, data=REVIEW, headers=JSON, ssl=context) as answer:
                assert answer.status == 200, "a connection from before goes on"
            (bundle,) = await registered_authorities(client)
            new, before = x509.load_pem_x509_certificates(bundle)
            assert before == x509.load_pem_x509_certificate(old.authority)
            assert new != before
            async with aiohttp.ClientSession() as session:
                assert await ask(session, world, bundle) == 200
            async with aiohttp.ClientSession() as session:
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await ask(session, world, old.authority)
            serving = await world.service.load_certificate()
            world.service.server.show(  # a replica that has not looked yet
                type(serving)(old.certificate, old.certificate_key, old.authority)
            )
            async with aiohttp.ClientSession() as session:
                assert await ask(session, world, bundle) == 200, "the old one is trusted too"


async def test_a_certificate_that_another_replica_renewed_is_shown_at_once() -> None:
    async with cluster() as (credentials, client), webhook_world(credentials, CONFIG) as world:
        await client.delete(SECRETS, "kueue-webhook-server-cert", namespace="kueue-system")
        hosts = setup.serving_hosts(CONFIG, "127.0.0.1")
        authority = certificates.create_authority("other", NOW)
        pair = certificates.issue_certificate(authority, hosts[0], hosts, NOW)

        async def is_shown() -> bool:
            (bundle,) = await registered_authorities(client)
            async with aiohttp.ClientSession() as session:
                with contextlib.suppress(aiohttp.ClientConnectorCertificateError):
                    return await ask(session, world, bundle) == 200 and bundle != before
            return False

        before = authority.certificate
        assert pair.certificate
        await until_true(is_shown)


def write_pair(directory: Path, authority: certificates.KeyPair, name: str) -> None:
    """As cert-manager's Secret is mounted: a link to a folder that is replaced as a whole."""
    folder = directory / name
    folder.mkdir()
    hosts = ["kueue-webhook-service.kueue-system.svc", "127.0.0.1"]
    pair = certificates.issue_certificate(authority, hosts[0], hosts, NOW)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(authority.certificate)
    link = directory / "link"
    link.symlink_to(folder)
    link.replace(directory / "serving")


async def test_certificate_files_are_watched(tmp_path: Path) -> None:
    config = load_configuration(
        f"""
        webhook: {{host: 127.0.0.1, port: 0, certDir: {tmp_path / "serving"}}}
        internalCertManagement: {{enable: false}}
        """
    )
    first, second = (certificates.create_authority(name, NOW) for name in ("one", "two"))
    write_pair(tmp_path, first, "1")
    async with (
        cluster() as (credentials, client),
        webhook_world(credentials, config, file_seconds=0.01) as world,
    ):
        assert await registered_authorities(client) == {first.certificate}
        assert (await client.list(SECRETS)).items == []
        write_pair(tmp_path, second, "2")

        async def is_shown() -> bool:
            async with aiohttp.ClientSession() as session:
                with contextlib.suppress(aiohttp.ClientConnectorCertificateError):
                    return await ask(session, world, second.certificate) == 200
            return False

        await until_true(is_shown)
        assert await registered_authorities(client) == {second.certificate}


async def test_files_that_are_no_pair_leave_the_certificate_that_is_shown(tmp_path: Path) -> None:
    config = load_configuration(
        f"""
        webhook: {{host: 127.0.0.1, port: 0, certDir: {tmp_path / "serving"}}}
        internalCertManagement: {{enable: false}}
        """
    )
    authority = certificates.create_authority("one", NOW)
    write_pair(tmp_path, authority, "1")
    async with (
        cluster() as (credentials, _),
        webhook_world(credentials, config, file_seconds=0.01) as world,
    ):
        other = certificates.issue_certificate(authority, "a", ["127.0.0.1"], NOW)
        (tmp_path / "1" / "tls.crt").write_bytes(other.certificate)
        with pytest.raises(ssl.SSLError):
            await world.service.look_after_once()
        async with aiohttp.ClientSession() as session:
            assert await ask(session, world, authority.certificate) == 200


async def test_a_standby_serves_and_says_nothing() -> None:
    async with cluster() as (credentials, client), webhook_world(credentials, CONFIG) as leader:
        before = await client.list(MUTATING_WEBHOOKS)
        standby = setup.build_webhooks(leader.context, environment={})
        task = asyncio.create_task(standby.run())
        try:
            async with asyncio.timeout(20):
                await standby.registered.wait()
            follower = WebhookWorld(client, leader.context, standby, task)
            (bundle,) = await registered_authorities(client)
            async with aiohttp.ClientSession() as session:
                assert await ask(session, follower, bundle) == 200
            after = await client.list(MUTATING_WEBHOOKS)
            assert after.items == before.items, "the leader is asked"
            standby.lead()
            async with asyncio.timeout(20):
                await standby.registered.wait()
            hooks = (await client.list(MUTATING_WEBHOOKS)).items[0]["webhooks"]
            port = standby.server.port
            assert all(f":{port}/" in hook["clientConfig"]["url"] for hook in hooks)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
