"""The guard of a worker on the embedded API server, with the rights of its manifest."""

from __future__ import annotations

from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.auth import service_account
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import NAMESPACES
from multiqueue.runtime.manifests import create_missing
from tests.guard_world import (
    SYSTEM,
    assert_an_outage_of_the_guard_stops_nothing,
    assert_old_copies_are_refused,
    assert_the_probes_of_its_manifest_answer,
)
from tests.least_privilege import documents, kubeconfig_of

TOKENS = {"guard": service_account(SYSTEM, "multiqueue-worker-guard")}


async def test_old_copies_are_refused_and_an_outage_of_the_guard_stops_nothing():
    async with ApiServer(ServerOptions(crds=load_crds(), tokens=TOKENS)) as server:
        config = server.kubeconfig()
        admin = await Credentials.from_kubeconfig_dict(config)
        guard = await Credentials.from_kubeconfig_dict(kubeconfig_of(config, "guard"))
        async with KubeClient(admin) as client, KubeClient(guard) as own:
            head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
            await client.create(NAMESPACES, head)
            for name in ("role", "configuration"):
                await create_missing(client, list(documents(f"worker-guard/{name}.yaml")))
            await assert_old_copies_are_refused(client, own)
            await assert_the_probes_of_its_manifest_answer(client, own)
            await assert_an_outage_of_the_guard_stops_nothing(client)
