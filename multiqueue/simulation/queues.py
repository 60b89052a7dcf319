"""The queues of manager and workers: a ClusterQueue per team, one cohort per cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from multiqueue.api.alternatives import OTHERWISE
from multiqueue.api.v1beta2.meta import LabelSelector
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions, FairSharing
from multiqueue.lib.shares import share_out
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    CheckRule,
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    Preemption,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
)
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSet, Workload
from multiqueue.simulation.fleet import GPU, HARDWARE_LABEL, Preempting, SimulatedFleet
from multiqueue.simulation.traces.trace import CLASSES, NODE_GPUS, TraceJob

CHECK = "multikueue"
COHORT = "all"
LOCAL_QUEUE = "jobs"
POOL = "gpu"
"""The manager's only flavor: the dispatcher chooses the hardware of a job."""
PREEMPTION = {
    Preempting.NOBODY: Preemption(),
    Preempting.LESS_URGENT: Preemption(
        within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
        reclaim_within_cohort=PreemptionPolicy.LOWER_PRIORITY,
    ),
    Preempting.BORROWERS: Preemption(
        within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
        reclaim_within_cohort=PreemptionPolicy.ANY,
    ),
}
OPTIONS = EngineOptions(topology=None)
FAIR_OPTIONS = EngineOptions(topology=None, fair_sharing=FairSharing())


def make_engine(
    flavors: Mapping[str, int],
    weights: Mapping[str, float],
    *,
    is_manager: bool = False,
    fleet: SimulatedFleet,
) -> tuple[Engine, tuple[ClusterQueue, ...]]:
    """Return an engine with its queues, and the queues.

    Args:
        flavors: GPUs by flavor.
        weights: Weights of the teams.
        is_manager: Whether its Workloads run elsewhere.
        fleet: Has the rules of sharing and preemption.
    """
    engine = Engine(FAIR_OPTIONS if fleet.fair_sharing else OPTIONS)
    for flavor in flavors:
        labels = {} if is_manager else {HARDWARE_LABEL: flavor}
        engine.upsert_resource_flavor(ResourceFlavor(name=flavor, node_labels=labels))
    if is_manager:
        engine.upsert_admission_check(AdmissionCheckInfo(name=CHECK))
    shares = {flavor: share_out(count, weights) for flavor, count in flavors.items()}
    queues = tuple(
        ClusterQueue(
            name=team,
            cohort=COHORT,
            namespace_selector=LabelSelector(),
            resource_groups=(
                ResourceGroup(
                    covered_resources=(GPU,),
                    flavors=tuple(
                        FlavorQuotas(name=flavor, quotas={GPU: Quota(nominal=shares[flavor][team])})
                        for flavor in flavors
                    ),
                ),
            ),
            preemption=PREEMPTION[fleet.preempting],
            checks=(CheckRule(name=CHECK),) if is_manager else (),
        )
        for team in sorted(weights)
    )
    for queue in queues:
        engine.upsert_namespace(queue.name, {})
        engine.upsert_cluster_queue(queue)
        engine.upsert_local_queue(
            LocalQueue(key=f"{queue.name}/{LOCAL_QUEUE}", cluster_queue=queue.name)
        )
    return engine, queues


def make_workload(job: TraceJob, created_at: datetime, *, uid: str = "") -> Workload:
    """Return the Workload of a job: pods with up to the GPUs of one node each."""
    pods = job.gpus // NODE_GPUS if job.gpus % NODE_GPUS == 0 else 1
    each = job.gpus // pods
    fewer = {name: gpus // each for name, gpus in job.alternatives.items()}
    return Workload(
        key=f"{job.team}/{job.name}",
        uid=uid or f"uid-{job.name}",
        queue=f"{job.team}/{LOCAL_QUEUE}",
        priority=CLASSES[job.kind].priority,
        created_at=created_at,
        queue_order_at=created_at,
        pod_sets=(
            PodSet(
                count=pods,
                requests={GPU: each},
                alternatives=tuple(sorted({**fewer, OTHERWISE: pods}.items())) if fewer else (),
            ),
        ),
    )
