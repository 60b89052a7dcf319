"""Gates of a Workload that keep it from preempting others; on a virtual clock (E-174)."""

from __future__ import annotations

from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import build_configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, has_quota
from multiqueue.kube import resources
from tests.builders.workloads import NAMESPACE, make_template
from tests.integration.queue_steps import running, submit
from tests.integration.test_controllers_preemption import preempting_cluster, ranked_job, until
from tests.queue_manager import CONFIG, QueueCluster
from tests.virtual_time import virtual_time

GATES = {"MultiKueueOrchestratedPreemption": True}
GATED = build_configuration({"namespace": CONFIG.namespace, "featureGates": GATES})
BLOCKED = WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES


def gated_workload() -> dict[str, Any]:
    """Two CPUs at a high priority, behind a gate; nobody's job."""
    pod_sets = [{"name": "main", "count": 2, "template": make_template()}]
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": "gated", "namespace": NAMESPACE},
        "spec": {
            "queueName": "lq",
            "priority": 100,
            "podSets": pod_sets,
            "preemptionGates": [{"name": names.MULTIKUEUE_GATE}],
        },
    }


def gated(cluster: QueueCluster) -> Workload:
    workload = cluster.informers.workloads.store.get(f"{NAMESPACE}/gated")
    assert workload is not None
    return workload


def blocked(cluster: QueueCluster) -> tuple[str, str] | None:
    condition = find(gated(cluster).status, BLOCKED)
    return (condition.status, condition.reason) if condition is not None else None


@virtual_time
async def test_a_workload_preempts_once_its_gate_is_opened() -> None:
    async with preempting_cluster(GATED) as cluster:
        await submit(cluster, ranked_job("low", "low", parallelism=2, completions=2))
        await until(cluster, lambda: running(cluster, "low"), "the job running")
        await cluster.create(resources.WORKLOADS, gated_workload())
        key = f"{NAMESPACE}/gated"
        store = cluster.informers.workloads.store
        await until(cluster, lambda: store.get(key) and blocked(cluster), "word of the gate")
        assert blocked(cluster) == ("True", "PreemptionGated")
        (state,) = gated(cluster).status.preemption_gates
        assert (state.name, state.position) == (names.MULTIKUEUE_GATE, "Closed")
        reserved = find(gated(cluster).status, WorkloadCondition.QUOTA_RESERVED)
        assert reserved is not None
        assert "it's gated by: kueue.x-k8s.io/multikueue" in reserved.message
        assert running(cluster, "low"), "nobody was preempted"

        opened = {
            "name": state.name,
            "position": "Open",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await cluster.patch(
            resources.WORKLOADS,
            "gated",
            {"status": {"preemptionGates": [opened]}},
            namespace=NAMESPACE,
            subresource="status",
        )

        await until(cluster, lambda: has_quota(gated(cluster).status), "quota")
        assert blocked(cluster) == ("False", "QuotaReserved")
        assert gated(cluster).status.preemption_gates[0].position == "Open"
        assert not running(cluster, "low")
