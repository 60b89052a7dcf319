"""Reading a cluster for the linter: what may not be read is named, old workers are understood."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from multiqueue.cli.lint_cluster import KINDS, read_cluster, read_workers
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import Resource
from multiqueue.workers.kubeconfigs.stored import read_config
from tests.unit.lint.objects import cluster_queue, job, obj


class Cluster:
    """Answers lists; kinds in ``forbidden`` are not for us, those in ``absent`` not served."""

    def __init__(self, *objects: Any, forbidden: str = "", absent: str = "", old: bool = False):
        self._objects = objects
        self._forbidden = forbidden.split()
        self._absent = absent.split()
        self._old = old

    async def list(self, resource: Resource) -> Any:
        if resource.plural in self._forbidden:
            raise Forbidden(403, reason="Forbidden", message="no")
        old_only = self._old and resource.version == "v1beta2"
        if resource.plural in self._absent or old_only:
            raise NotFound(404, reason="NotFound", message="no")
        items = [o for o in self._objects if o["kind"] == resource.kind]
        return SimpleNamespace(items=items, resource_version="1")

    async def get(self, resource: Resource, name: str, *, namespace: str) -> Any:
        _ = namespace, name
        if resource.plural in self._forbidden:
            raise Forbidden(403, reason="Forbidden", message="no")
        raise NotFound(404, reason="NotFound", message="no")


def client(*objects: Any, **how: Any) -> KubeClient:
    return cast("KubeClient", Cluster(*objects, **how))


async def test_what_may_not_be_read_is_named_and_skipped() -> None:
    reading = await read_cluster(client(forbidden="nodes", absent="cohorts"))
    assert reading.skipped == [
        "Cohort: the cluster does not serve cohorts",
        "Node: not allowed to list nodes",
    ]
    assert reading.complete == {resource.kind for resource in KINDS} - {"Node", "Cohort"}


async def test_a_worker_of_the_old_version_is_read() -> None:
    queue = {**cluster_queue(), "apiVersion": "kueue.x-k8s.io/v1beta1"}
    reading = await read_cluster(client(queue, old=True))
    assert "ClusterQueue" in reading.complete
    (got,) = reading.to_world().all("ClusterQueue")
    assert got["apiVersion"] == "kueue.x-k8s.io/v1beta2"


async def test_jobs_that_ended_are_not_kept() -> None:
    ended = {**job(), "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    waiting = job()
    waiting["metadata"]["name"] = "waiting"
    reading = await read_cluster(client(ended, waiting))
    assert [entry.obj["metadata"]["name"] for entry in reading.entries] == ["waiting"]


async def test_a_configuration_that_may_not_be_read_is_unknown() -> None:
    for cluster in (client(), client(forbidden="configmaps")):
        assert await read_config(cluster, "kueue-system") is None


async def test_workers_that_cannot_be_looked_at_are_told_from_refused_ones() -> None:
    def worker(name: str, **kubeconfig: str) -> dict[str, Any]:
        return obj("MultiKueueCluster", name, {"clusterSource": {"kubeConfig": kubeconfig}})

    in_file = worker("file", location="/etc/x", locationType="Path")
    in_secret = worker("secret", location="s", locationType="Secret")
    got = await read_workers(client(), [in_file, in_secret], namespace="kueue-system")
    assert got.unseen == {"file": "its kubeconfig is no Secret"}
    assert list(got.refused) == ["secret"]
    got = await read_workers(client(forbidden="secrets"), [in_secret], namespace="kueue-system")
    assert got.unseen == {"secret": 'not allowed to read Secret "kueue-system/s"'}
