"""A restart of the manager on a real API server that has 100,000 waiting Workloads (issue 17).

The manager explains one Workload that has no room. Copies of it are put into etcd, and each queue
gets room for one. Then a manager starts, ours and upstream's on a server of its own each.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.runtime.manifests import create_missing
from tests.bench.fleet_burst import cpu_seconds, kueue
from tests.bench.upstream import programs
from tests.bench.upstream.run import (
    NO_LIMIT,
    OURS,
    SERVER_ARGUMENTS,
    UPSTREAM,
    Setting,
    install,
    running_manager,
)
from tests.controlplane import binaries
from tests.controlplane.conftest import require
from tests.controlplane.plane import RealControlPlane
from tests.integration.waiting import condition, is_true, until
from tests.soak.record import read_memory

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

WAITING = int(os.environ.get("WAITING", "100000"))
QUEUES = 100
NAMESPACE = "many"
SECONDS = 30.0
"""The goal, from the start of the process to the first admission."""
FIRST = "first-000000"
OPERATIONS = 100
"""Puts in one transaction; etcd takes 128."""
SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds from the start of the process to the first and the last admission of the queues."""

    first: float
    last: float
    memory: int
    cpu: float
    """CPU time in seconds, and resident bytes, half a minute after the last admission."""

    def describe(self, program: str) -> str:
        return (
            f"{program}: first admission after {self.first:.1f} s, all {QUEUES} after "
            f"{self.last:.1f} s; {self.memory / 2**20:,.0f} MiB, {self.cpu:.1f} s of CPU"
        )


def queue_objects(quota: int) -> list[dict[str, Any]]:
    """A namespace, and queues with so many CPUs each."""
    cpu = {"name": "cpu", "nominalQuota": quota}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [cpu]}]}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        kueue("ResourceFlavor", "default", {}),
    ]
    for name in map(queue_name, range(QUEUES)):
        spec = {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": [group]}
        local_queue = kueue("LocalQueue", name, {"clusterQueue": name})
        local_queue["metadata"]["namespace"] = NAMESPACE
        objects += [kueue("ClusterQueue", name, spec), local_queue]
    return objects


def queue_name(number: int) -> str:
    return f"queue-{number % QUEUES:03}"


def make_workload() -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    spec = {"queueName": queue_name(0), "podSets": pod_sets, "priority": 0}
    workload = kueue("Workload", FIRST, spec)
    workload["metadata"]["namespace"] = NAMESPACE
    return workload


class Etcd:
    """The JSON gateway of the control plane's etcd."""

    def __init__(self, plane: RealControlPlane) -> None:
        self._url = plane.etcd_url

    def read(self, key: str) -> bytes:
        found = self._ask("range", {"key": encode(key)})["kvs"]
        return base64.b64decode(found[0]["value"])

    def put(self, objects: Iterator[tuple[str, bytes]]) -> None:
        while puts := [
            {"requestPut": {"key": encode(key), "value": base64.b64encode(value).decode()}}
            for key, value in islice(objects, OPERATIONS)
        ]:
            self._ask("txn", {"success": puts})

    def _ask(self, what: str, body: dict[str, Any]) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/v3/kv/{what}", data)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def encode(key: str) -> str:
    return base64.b64encode(key.encode()).decode()


def key_of(name: str) -> str:
    return f"/registry/kueue.x-k8s.io/workloads/{NAMESPACE}/{name}"


def copies(template: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield more Workloads as the manager has left the first one, a queue after the other."""
    uid = json.loads(template)["metadata"]["uid"]
    text = template.decode()
    for number in range(1, WAITING):
        name = f"waits-{number:06}"
        copy = text.replace(uid, str(uuid.UUID(int=number))).replace(FIRST, name)
        yield key_of(name), copy.replace(queue_name(0), queue_name(number)).encode()


async def restart(program: str, folder: Path) -> Restart:
    setting = Setting(program, "baseline", NO_LIMIT, 1.0)
    async with contextlib.AsyncExitStack() as stack:
        plane = stack.enter_context(
            RealControlPlane(folder / "plane", controllers=False, extra_arguments=SERVER_ARGUMENTS)
        )
        install(setting, plane)
        credentials = await Credentials.from_kubeconfig_file(plane.kubeconfig)
        client = await stack.enter_async_context(KubeClient(credentials))
        await create_missing(client, queue_objects(0))
        with running_manager(setting, plane.kubeconfig, folder):
            await client.create(resources.WORKLOADS, make_workload())
            await until(client, resources.WORKLOADS, is_explained, seconds=60)
        etcd = Etcd(plane)
        await asyncio.to_thread(etcd.put, copies(etcd.read(key_of(FIRST))))
        for queue in queue_objects(1):
            if queue["kind"] == "ClusterQueue":
                name = queue["metadata"]["name"]
                await client.patch(resources.CLUSTER_QUEUES, name, {"spec": queue["spec"]})
        newest = (await client.list(resources.CLUSTER_QUEUES)).resource_version
        begun = time.monotonic()
        with running_manager(setting, plane.kubeconfig, folder) as manager:
            times = [at - begun async for at in admissions(client, newest)]
            await asyncio.sleep(SETTLE_SECONDS)
            memory, cpu = read_memory(manager.pid), cpu_seconds(manager.pid)
    return Restart(times[0], times[-1], memory, cpu)


def is_explained(workloads: list[dict[str, Any]]) -> bool:
    return any(condition(each, "QuotaReserved").get("status") == "False" for each in workloads)


async def admissions(client: KubeClient, newest: str) -> AsyncIterator[float]:
    """Yield the time of each Workload's admission until all queues have one."""
    seen = set[str]()
    while True:  # a server ends the watch of a reader that had no CPU time for a moment
        watch = client.watch(resources.WORKLOADS, resource_version=newest, timeout_seconds=1200)
        async with contextlib.aclosing(watch) as changes:
            async for change in changes:
                workload = json.loads(change.raw)
                metadata = workload["metadata"]
                newest = metadata["resourceVersion"]
                if is_true(workload, "Admitted") and metadata["name"] not in seen:
                    seen.add(metadata["name"])
                    yield time.monotonic()
                if len(seen) == QUEUES:
                    return


@pytest.mark.parametrize("program", [OURS, UPSTREAM])
async def test_a_restart_with_many_waiting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    require("etcd", "kube-apiserver")
    programs.build()
    binaries.build()
    measured = await restart(program, tmp_path)

    with capsys.disabled():
        sys.stdout.write(f"\n{WAITING:,} waiting, {measured.describe(program)}\n")
    assert measured.first <= SECONDS or program == UPSTREAM
