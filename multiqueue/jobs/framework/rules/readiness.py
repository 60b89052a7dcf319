"""The rule that keeps PodsReady in line with the pods of a running job. Parity: E-185."""

from __future__ import annotations

from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_readiness import sync_pods_ready
from multiqueue.api.workload_state import find, has_quota, is_admitted
from multiqueue.jobs.framework.plan import ChangeStatus, JobPlan
from multiqueue.jobs.framework.view import JobView


def follow_pods(view: JobView) -> JobPlan | None:
    """Write whether all pods are ready, if the Configuration waits for that (J-131).

    Jobs that run on another cluster are left out: that cluster waits for their pods.
    """
    workload = view.workload
    if workload is None or not view.options.wait_for_pods or workload.status.cluster_name:
        return None
    runs = is_admitted(workload.status) and not view.suspended
    is_known = find(workload.status, WorkloadCondition.PODS_READY) is not None
    if not runs and is_known:
        return None  # the end of a run resets it
    ready = runs and view.integration.pods_ready(view.job)
    if not (ready or is_known or view.prebuilt_name):
        return None  # False comes with another write of the status

    def change(newest: Workload) -> WorkloadStatus:
        if has_quota(newest.status) != has_quota(workload.status):
            return newest.status
        generation = newest.metadata.generation
        return sync_pods_ready(newest.status, ready=ready, now=view.now, generation=generation)

    if change(workload) == workload.status:
        return None
    return ChangeStatus(workload=workload, change=change)
