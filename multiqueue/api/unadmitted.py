"""The conditions of a Workload that is not admitted, which depend on two feature gates.

UnadmittedWorkloadsObservability (on): QuotaReserved=False has a detailed reason, and Admitted=False
beside it names what is missing. Without the gate, QuotaReserved=False has one of the few reasons
that older tools know (E-85). UnadmittedWorkloadsExplicitStatus (off): both conditions are False
from the beginning (E-110).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import WorkloadStatus
from multiqueue.api.workload_state import all_checks_ready, has_quota, is_admitted, with_condition

_COARSE: Mapping[str, Reason] = {
    Reason.SUSPENDED: Reason.INADMISSIBLE,
    Reason.MISCONFIGURED: Reason.INADMISSIBLE,
    Reason.ADMISSION_GATED: Reason.INADMISSIBLE,
    Reason.WAITING_FOR_PODS_READY: Reason.WAITING,
    Reason.ON_HOLD: Reason.ON_HOLD,
}
"""Coarse reason by detailed one; the coarse reason of all others is Pending."""


def coarse_reason(reason: Reason) -> Reason:
    """Return the reason for QuotaReserved=False that older tools know."""
    return _COARSE.get(reason, Reason.PENDING)


def tell_unadmitted(status: WorkloadStatus, *, now: datetime, generation: int) -> WorkloadStatus:
    """Name what is missing in Admitted=False; an admitted Workload is left alone."""
    if is_admitted(status):
        return status
    if not has_quota(status):
        reason, message = Reason.NO_RESERVATION, "The workload has no reservation"
    elif not all_checks_ready(status):
        reason = Reason.UNSATISFIED_ADMISSION_CHECKS
        message = "The workload has not all checks ready"
    else:
        reason = Reason.PENDING_DELAYED_TOPOLOGY_REQUESTS
        message = "There are pending delayed topology requests"
    return with_condition(
        status,
        WorkloadCondition.ADMITTED,
        value=False,
        reason=reason,
        message=message,
        now=now,
        generation=generation,
    )
