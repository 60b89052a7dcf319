"""Writes the Active condition of an AdmissionCheck; shared by the controllers of checks."""

from __future__ import annotations

from multiqueue.api.conditions import ACTIVE, set_condition
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import AdmissionCheck
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.status_writes import write_status


async def write_active(
    context: ManagerContext, check: AdmissionCheck, *, active: bool, reason: str, message: str
) -> None:
    """Write the condition if it changed; a deleted check needs none.

    Raises:
        KubeError: the write failed; Conflict if the check changed since it was read.
    """
    conditions = set_condition(
        check.status.conditions,
        type_=ACTIVE,
        status=active,
        reason=reason,
        message=message,
        now=context.clock.now(),
        observed_generation=check.metadata.generation,
    )
    if conditions == check.status.conditions:
        return
    status = {"conditions": [encode(condition) for condition in conditions]}
    await write_status(context.client, context.informers.admission_checks, check, status)
