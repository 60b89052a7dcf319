"""The server under test: the embedded one, or the cluster that CONTRACT_KUBECONFIG names."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.credentials import Credentials
from tests.contract.client import Api, Cluster, unique
from tests.contract.kubectl import Kubectl, open_kubectl
from tests.contract.kueue_server import open_kueue

KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """URL, headers and TLS of the server under test."""
    if KUBECONFIG:
        credentials = await Credentials.from_kubeconfig_file(Path(KUBECONFIG))
        headers = {}
        if authorization := await credentials.authorization():
            headers["Authorization"] = authorization
        yield Cluster(credentials.server, headers, credentials.ssl_context, embedded=False)
        return
    async with ApiServer(ServerOptions(tls=False)) as server:
        token = server.kubeconfig()["users"][0]["user"]["token"]
        yield Cluster(server.url, {"Authorization": f"Bearer {token}"}, None, embedded=True)


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    """A client of the server under test."""
    async with aiohttp.ClientSession(read_bufsize=2**22) as session:
        yield Api(cluster, session)


@pytest.fixture
async def anonymous(cluster: Cluster, api: Api) -> Api:
    """A client that does not say who it is."""
    return Api(Cluster(cluster.url, {}, cluster.ssl, embedded=cluster.embedded), api.session)


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    name = unique("contract")
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    if not api.cluster.embedded:
        await api.send("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def config_maps(namespace: str) -> str:
    """The path of config maps in that namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def jobs(namespace: str) -> str:
    """The path of jobs in that namespace."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


@pytest.fixture
def pods(namespace: str) -> str:
    """The path of pods in that namespace."""
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """A real kubectl for the server under test, in a namespace of its own."""
    async with open_kubectl(tmp_path) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kueue() -> AsyncIterator[tuple[Api, str]]:
    """The server under test with our definitions and webhooks, and a namespace on it."""
    async with open_kueue() as opened:
        yield opened
