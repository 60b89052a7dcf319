"""A manager whose webhooks cannot be registered goes on with what works, and says what to do."""

from __future__ import annotations

import pytest
import structlog

from multiqueue.api.conversion.convert import converters
from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from multiqueue.runtime.manager import Manager
from multiqueue.runtime.manifests import create_missing
from tests.integration.test_runtime_manager import get, make_config, running
from tests.least_privilege import MANAGER_TOKEN, TOKENS, kubeconfig_of, rbac_objects

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}


async def test_without_the_manifests_of_its_webhooks_a_manager_is_ready_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a cluster it may not create them."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    options = ServerOptions(crds=load_crds(), converters=converters(), tokens=TOKENS)
    async with ApiServer(options) as server:
        admin = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        kubeconfig = kubeconfig_of(server.kubeconfig(), MANAGER_TOKEN)
        own = await Credentials.from_kubeconfig_dict(kubeconfig)
        async with KubeClient(admin) as client:
            await create_missing(client, [NAMESPACE, *rbac_objects()])
            config = make_config(
                leaderElection={},
                webhook={"port": 0},
                featureGates={"VisibilityOnDemand": False},
            )
            manager = Manager(config, own)
            with structlog.testing.capture_logs() as logs:
                async with running(manager):
                    await manager.until_at_work()
                    assert await get(manager.health_port, "/readyz") == (200, "ok")
            assert (await client.list(MUTATING_WEBHOOKS)).items == []
            assert (await client.list(VALIDATING_WEBHOOKS)).items == []
    (told,) = (log["problem"] for log in logs if "cannot ask" in log["event"])
    assert told.startswith(
        'MutatingWebhookConfiguration "kueue-mutating-webhook-configuration" is missing'
    )
    assert told.endswith("kubectl apply --server-side -k config/webhook")
