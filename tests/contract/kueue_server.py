"""The server under test as a manager leaves it: our definitions, our webhooks by URL."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from multiqueue.api.config import Configuration
from multiqueue.api.conversion.convert import converters
from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.jobs.setup import build_registry
from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.tls import build_server_context
from multiqueue.kube.trust import CertificateTrust
from multiqueue.webhooks.addresses import Address
from multiqueue.webhooks.conversion_registration import ConversionRegistrar
from multiqueue.webhooks.endpoints import Endpoints
from multiqueue.webhooks.registration import MUTATING_NAME, VALIDATING_NAME, WebhookRegistrar
from multiqueue.webhooks.server import WebhookServer
from tests.contract.client import PATIENCE_SECONDS, Api, Cluster, unique
from tests.contract.kueue_objects import path_of, valid
from tests.unit.webhooks.lookups import Queues

KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")
HOST = "127.0.0.1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
REGISTRATIONS = (
    f"{WEBHOOKS}/mutatingwebhookconfigurations/{MUTATING_NAME}",
    f"{WEBHOOKS}/validatingwebhookconfigurations/{VALIDATING_NAME}",
)


@contextlib.asynccontextmanager
async def open_kueue() -> AsyncIterator[tuple[Api, str]]:
    """A client of the server under test, and a namespace whose Jobs are managed."""
    async with contextlib.AsyncExitStack() as stack:
        if KUBECONFIG:
            credentials = await Credentials.from_kubeconfig_file(Path(KUBECONFIG))
            headers = {"Authorization": await credentials.authorization() or ""}
            cluster = Cluster(credentials.server, headers, credentials.ssl_context, embedded=False)
        else:
            options = ServerOptions(tls=False, crds=load_crds(), converters=converters())
            server = await stack.enter_async_context(ApiServer(options))
            config = server.kubeconfig()
            headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
            cluster = Cluster(server.url, headers, None, embedded=True)
            credentials = await Credentials.from_kubeconfig_dict(config)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        api = Api(cluster, session)
        if not cluster.embedded:
            await _define(api)
        client = await stack.enter_async_context(KubeClient(credentials, user_agent="contract"))
        await stack.enter_async_context(_webhooks(api, client))
        namespace = unique("kueue")
        await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        await _until_asked(api, namespace)
        yield api, namespace
        await api.send("DELETE", f"/api/v1/namespaces/{namespace}")


async def _define(api: Api) -> None:
    """Apply our definitions, and wait until their objects are served."""
    query = {"fieldManager": "contract", "force": "true"}
    for crd in load_crds():
        await api.send(
            "PATCH",
            f"{CRDS}/{crd['metadata']['name']}",
            json.dumps(crd),
            content_type="application/apply-patch+yaml",
            **query,
        )
    for crd in load_crds():
        spec = crd["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][-1]['name']}/{spec['names']['plural']}"
        await api.until(path, lambda answer: answer.status == 200)


async def _until_asked(api: Api, namespace: str) -> None:
    """Wait until the server has read the registrations: a bad Workload is refused by a webhook."""
    workload = valid("Workload")
    workload["spec"]["podSets"] = [{**each, "minCount": 1} for each in workload["spec"]["podSets"]]
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    path = path_of("Workload", namespace)
    while (answer := await api.send("POST", path, workload, dryRun="All")).status != 403:
        assert asyncio.get_running_loop().time() < deadline, answer
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def _webhooks(api: Api, client: KubeClient) -> AsyncIterator[None]:
    """Serve reviews and conversions, and tell the server; forget it at the end."""
    config, now = Configuration(), datetime.now(UTC)
    authority = create_authority("contract", now)
    pair = issue_certificate(authority, HOST, [HOST], now)
    endpoints = Endpoints(Queues(), config, build_registry(config))
    server = WebhookServer(
        endpoints.table(), host=HOST, port=0, context=build_server_context(config.tls)
    )
    server.show(Serving(pair.certificate, pair.key, authority.certificate))
    await server.start()
    server.knowing.set()
    address = Address(url=f"https://{HOST}:{server.port}")
    try:
        trust = CertificateTrust(pair.certificate, pair.key, HOST)
        await ConversionRegistrar(client, address).ensure(trust, authority.certificate)
        await WebhookRegistrar(client, config, build_registry(config), address).ensure(
            trust, authority.certificate
        )
        yield
    finally:
        for path in REGISTRATIONS:
            await api.send("DELETE", path)
        await server.stop()
