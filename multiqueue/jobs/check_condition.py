"""Writes the Active condition of an AdmissionCheck; shared by the controllers of checks."""

from __future__ import annotations

from functools import partial

from multiqueue.api.conditions import ACTIVE, set_condition
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1beta2 import AdmissionCheck
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import ADMISSION_CHECKS


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
    patch = {
        "metadata": {"resourceVersion": check.metadata.resource_version},
        "status": {"conditions": [encode(condition) for condition in conditions]},
    }
    try:
        written = await context.client.patch(
            ADMISSION_CHECKS,
            check.metadata.name,
            patch,
            subresource="status",
            decode=partial(decode, AdmissionCheck),
        )
    except NotFound:
        return
    context.informers.admission_checks.observe(written)
