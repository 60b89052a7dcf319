"""How long a Workload is told before it stops, and its pods may take, and if it is enough. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import CHECKPOINT_SECONDS
from multiqueue.api.workload_state import is_admitted
from multiqueue.lib.digits import is_number
from multiqueue.model.disruption_policy import (
    CohortOf,
    PolicyOf,
    QueueOf,
    build_disruption_rules,
    find_policy,
    read_save_habits,
)

DEFAULT_GRACE = 30
"""Seconds; the Kubernetes default for pods without a grace period."""


def find_stop_time(workload: api.Workload) -> timedelta:
    """Return the longest grace period of its pods; their worker kills them after that."""
    return timedelta(seconds=max(map(_grace, workload.spec.pod_sets), default=DEFAULT_GRACE))


def find_cut_off(workload: api.Workload, job: Mapping[str, Any] | None, *, notice: int = 0) -> str:
    """Say if saving a checkpoint takes longer than the pods get to stop; else empty.

    Args:
        workload: The Workload with the pods.
        job: Its job, which may declare how long a checkpoint takes for all pods.
        notice: The seconds for which it is told before its pods are.
    """
    common = _seconds(job["metadata"] if job is not None else {})
    for pod_set in workload.spec.pod_sets:
        grace = _grace(pod_set)
        needed = max(common, _seconds(pod_set.template.get("metadata") or {}))
        if needed and needed >= grace and needed > notice:
            return (
                f"saving its checkpoint takes {needed} s, and its pods are killed {grace} s after "
                "they are asked to stop"
            )
    return ""


def find_notice_length(
    workload: api.Workload, queue_of: QueueOf, cohort_of: CohortOf, policy_of: PolicyOf
) -> int:
    """Return the seconds of notice that a drain gives a Workload; 0: it is stopped at once."""
    habits, admission = read_save_habits(workload), workload.status.admission
    if habits is None or not habits.on_notice or admission is None:
        return 0
    policy = find_policy(admission.cluster_queue, queue_of, cohort_of, policy_of)
    if policy is None or not is_admitted(workload.status):
        return 0
    rules = build_disruption_rules(policy)
    return 0 if rules.problem else habits.notice_length(rules.cost.longest_notice)


def _grace(pod_set: api.PodSet) -> int:
    value = (pod_set.template.get("spec") or {}).get("terminationGracePeriodSeconds")
    return value if isinstance(value, int) else DEFAULT_GRACE


def _seconds(metadata: Mapping[str, Any]) -> int:
    value = str((metadata.get("annotations") or {}).get(CHECKPOINT_SECONDS, ""))
    return int(value) if is_number(value) else 0
