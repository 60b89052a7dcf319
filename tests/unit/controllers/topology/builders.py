"""Workloads that a topology placed, and their pods."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import orjson

from multiqueue.api import names
from multiqueue.api.v1beta2 import PodSetTopologyRequest, Workload
from multiqueue.jobs.machines.pods import Pod, read_pod
from multiqueue.model.topology import HOSTNAME, TopologyAssignment, TopologyDomain
from multiqueue.model.topology_encoding import encode_topology
from tests.builders.workloads import admitted, make_workload, with_status

INDEX = "batch.kubernetes.io/job-completion-index"


def make_assignment(
    *domains: tuple[str, int], levels: Sequence[str] = (HOSTNAME,)
) -> TopologyAssignment:
    return TopologyAssignment(
        levels=tuple(levels),
        domains=tuple(TopologyDomain((value,), count) for value, count in domains),
    )


def placed(
    assignment: TopologyAssignment | None,
    *,
    request: PodSetTopologyRequest | None = None,
    name: str = "wl",
) -> Workload:
    """An admitted Workload with one pod set."""
    count = sum(domain.count for domain in assignment.domains) if assignment else 1
    workload = make_workload(name, count=count)
    (pod_set,) = workload.spec.pod_sets
    pod_set = msgspec.structs.replace(pod_set, topology_request=request)
    spec = msgspec.structs.replace(workload.spec, pod_sets=(pod_set,))
    workload = admitted(msgspec.structs.replace(workload, spec=spec))
    admission = workload.status.admission
    assert admission is not None
    if assignment is None:
        return workload
    wire = encode_topology(assignment)
    given = msgspec.structs.replace(admission.pod_set_assignments[0], topology_assignment=wire)
    admission = msgspec.structs.replace(admission, pod_set_assignments=(given,))
    return with_status(workload, msgspec.structs.replace(workload.status, admission=admission))


def make_pod(
    name: str,
    *,
    on: str | None = None,
    level: str = HOSTNAME,
    index: str | None = None,
    node: str = "",
    pod_set: str = "main",
    offset: str | None = None,
    deleted: bool = False,
    phase: str = "Pending",
    topology: bool = True,
) -> Pod:
    """A pod of the Workload "wl": gated, or told to run on a host (``on``)."""
    annotations = {names.WORKLOAD: "wl", names.PODSET_REQUIRED_TOPOLOGY: "rack"}
    if offset is not None:
        annotations[names.POD_INDEX_OFFSET] = offset
    labels = {names.PODSET: pod_set} | ({INDEX: index} if index is not None else {})
    deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    wire = {
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": name,
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": annotations if topology else {},
            **deletion,
        },
        "spec": {
            "nodeName": node,
            "nodeSelector": {level: on} if on else {},
            "schedulingGates": [] if on else [{"name": names.TOPOLOGY_GATE}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": phase},
    }
    return read_pod(orjson.dumps(wire))
