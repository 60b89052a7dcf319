"""What is read from workers, and with which kubeconfigs."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.cli.commands.clusters import build_row
from multiqueue.cli.views.inactive import explain_cluster_queue
from multiqueue.cli.worker_access import read_remote_states
from multiqueue.cli.workers import WorkerStatus, read_figures, read_workers
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.manager_names import DEPLOYMENTS
from multiqueue.kube.resources import CLUSTER_QUEUES, CONFIG_MAPS, SECRETS, Resource
from tests.unit.cli.builders import condition

CLUSTER = decode(
    api.MultiKueueCluster,
    {
        "metadata": {"name": "worker"},
        "spec": {
            "clusterSource": {"kubeConfig": {"locationType": "Secret", "location": "kubeconfig"}}
        },
    },
)


class Lists:
    """A client that answers from memory; a request elsewhere is an error of the test."""

    def __init__(self, secret: dict[str, Any] | None = None, *queues: api.ClusterQueue) -> None:
        self.secret = secret
        self.queues = queues

    async def list(self, resource: Resource, **_: Any) -> Any:
        if resource == CLUSTER_QUEUES:
            return SimpleNamespace(items=self.queues)
        return SimpleNamespace(items=[CLUSTER] if self.secret else [])

    async def get(self, resource: Resource, *_: Any, **__: Any) -> Any:
        if resource in (CONFIG_MAPS, DEPLOYMENTS):
            raise NotFound(404)
        assert resource == SECRETS
        return self.secret


def make_gpus_queue(stop: str = "None", *conditions: Any) -> api.ClusterQueue:
    body = {
        "metadata": {"name": "gpus"},
        "spec": {"stopPolicy": stop},
        "status": {"conditions": list(conditions)},
    }
    return decode(api.ClusterQueue, body)


async def test_a_token_goes_only_where_the_manager_would_send_it() -> None:
    server = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": server}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    encoded = base64.b64encode(yaml.safe_dump(config).encode()).decode()
    client = cast("KubeClient", Lists({"data": {"kubeconfig": encoded}}))
    (worker,) = await read_workers(client, system_namespace="kueue-system")
    assert worker.problem.startswith("InsecureKubeConfig: ")
    assert 'cluster "k" does not verify TLS' in worker.problem
    states = await read_remote_states(client, [CLUSTER], "ns/w", system_namespace="kueue-system")
    assert states == {"worker": worker.problem}


@pytest.mark.parametrize(
    ("queue", "told"),
    [
        pytest.param(make_gpus_queue(), "", id="nobody has looked"),
        pytest.param(make_gpus_queue("None", condition("Active")), "", id="active"),
        pytest.param(
            make_gpus_queue("Hold", condition("Active", "False", "Stopped", "Is stopped")),
            "ClusterQueue gpus is stopped (stopPolicy Hold)",
            id="stopped",
        ),
        pytest.param(
            make_gpus_queue("None", condition("Active", "False", "FlavorNotFound", "no flavor x")),
            "ClusterQueue gpus is inactive: no flavor x",
            id="inactive",
        ),
    ],
)
async def test_a_worker_says_which_of_its_queues_admit_nothing(
    queue: api.ClusterQueue, told: str
) -> None:
    status = WorkerStatus(name="worker", connected=True, reason="")
    await read_figures(cast("KubeClient", Lists(None, queue)), status)
    assert explain_cluster_queue(queue) == told
    assert status.stopped == ([told] if told else [])
    assert build_row(status)[-1] == told
