"""Snapshots of clusters that place pods by topology."""

from __future__ import annotations

import gzip
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.whatif.anonymous import anonymize
from multiqueue.whatif.contents import keep_configuration
from multiqueue.whatif.outcome import ReplayFate
from multiqueue.whatif.replay import replay
from multiqueue.whatif.snapshot import Snapshot, pack, unpack
from tests.builders.engine import T0

GPU, HOST = "nvidia.com/gpu", "kubernetes.io/hostname"


def make_racks(*jobs: tuple[str, int]) -> Snapshot:
    """Two nodes with 4 GPUs each, and jobs of pods with 2 GPUs that want one node."""
    quota = {"name": "tas", "resources": [{"name": GPU, "nominalQuota": 8}]}
    snapshot = Snapshot(
        taken_at=T0, configuration=keep_configuration(Configuration()), program="multiqueue test"
    )
    labels = {"pool": "gpu"}
    specs: dict[tuple[str, str], dict[str, Any]] = {
        ("Topology", "racks"): {"levels": [{"nodeLabel": HOST}]},
        ("ResourceFlavor", "tas"): {"nodeLabels": labels, "topologyName": "racks"},
        ("ClusterQueue", "cq"): {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [quota]}],
        },
    }
    for (kind, name), spec in specs.items():
        snapshot.put({"kind": kind, "metadata": {"name": name}, "spec": spec})
    snapshot.put({"kind": "Namespace", "metadata": {"name": "ns"}})
    local = {"name": "lq", "namespace": "ns"}
    snapshot.put({"kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": "cq"}})
    for name in ("node-1", "node-2"):
        metadata = {"name": name, "labels": {**labels, HOST: name}}
        ready = {"type": "Ready", "status": "True"}
        status = {"allocatable": {GPU: "4", "pods": "10"}, "conditions": [ready]}
        snapshot.put({"kind": "Node", "metadata": metadata, "status": status})
    for number, (name, pods) in enumerate(jobs):
        snapshot.put(make_workload(name, pods, number))
    return snapshot


def make_workload(name: str, pods: int, number: int) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {GPU: "2"}}}
    pod_set = {
        "name": "main",
        "count": pods,
        "topologyRequest": {"required": HOST},
        "template": {"spec": {"containers": [container]}},
    }
    created = f"2026-01-01T00:00:{number:02}Z"
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": created},
        "spec": {"queueName": "lq", "podSets": [pod_set]},
    }


def test_a_job_waits_that_fits_the_quota_and_no_node() -> None:
    snapshot = make_racks(("one", 2), ("wide", 3), ("two", 2))
    got = replay(snapshot)
    assert {key: row.fate for key, row in got.workloads.items()} == {
        "ns/one": ReplayFate.STARTS,
        "ns/wide": ReplayFate.WAITS,
        "ns/two": ReplayFate.STARTS,
    }
    assert 'topology "racks"' in got.workloads["ns/wide"].why


def test_other_names_are_placed_alike() -> None:
    snapshot = make_racks(("one", 2), ("wide", 3), ("two", 2))
    hidden = anonymize(snapshot)
    assert b"node-1" not in gzip.decompress(pack(hidden))
    got = replay(unpack(pack(hidden), "f")).workloads.values()
    want = replay(snapshot).workloads.values()
    assert [row.fate for row in got] == [row.fate for row in want]


def test_an_object_that_cannot_be_read_is_left_out_and_named() -> None:
    snapshot = make_racks(("one", 2))
    snapshot.of("ClusterQueue")["cq"]["spec"]["resourceGroups"][0]["flavors"][0]["resources"] = [
        {"name": GPU, "nominalQuota": "many"}
    ]
    got = replay(snapshot)
    assert got.problem.startswith('ClusterQueue "cq" is left out: it cannot be read (')
    assert got.workloads["ns/one"].fate is ReplayFate.WAITS
