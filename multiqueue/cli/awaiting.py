"""Follows the Workload of a job until something is true of it, or the job cannot run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.job_names import await_workload, is_owned_by
from multiqueue.kube.client import KubeClient
from multiqueue.views.phase import ENDED, PhaseState
from multiqueue.views.workloads import WorkloadRow, view_workload

VERDICT_SECONDS = 3.0
"""How long a reason must last: the manager may not know yet what was applied with the job."""
HOPELESS = frozenset({Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR, Reason.MISCONFIGURED})
"""Reasons for which a job waits for ever, unless somebody changes it or its queue."""

Until = Callable[[Workload, WorkloadRow], bool]


@dataclass(slots=True, kw_only=True)
class FollowedJob:
    """A job, and its Workload as it was seen last.

    Attributes:
        namespace: Its namespace.
        uid: Its uid, or that of a Workload without a job.
        view: The Workload; None: not seen yet.
    """

    namespace: str
    uid: str = ""
    view: WorkloadRow | None = None


async def follow(
    client: KubeClient, job: FollowedJob, until: Until, *, seconds: float | None = None
) -> bool:
    """Watch the job's Workload until something is true of it; return whether it is."""

    def is_enough(workload: Workload) -> bool:
        if job.uid != workload.metadata.uid and not is_owned_by(workload, job.uid):
            return False
        job.view = view_workload(workload)
        return until(workload, job.view)

    return await await_workload(client, job.namespace, is_enough, seconds=seconds) is not None


async def follow_to_verdict(client: KubeClient, job: FollowedJob, until: Until) -> bool:
    """Watch until something is true, or the job cannot run; return whether it is true."""
    is_true = False

    def is_decided(workload: Workload, view: WorkloadRow) -> bool:
        nonlocal is_true
        is_true = until(workload, view)
        return is_true or is_hopeless(view)

    while True:
        await follow(client, job, is_decided)
        if is_true:
            return True
        is_better = await follow(
            client, job, lambda _, view: not is_hopeless(view), seconds=VERDICT_SECONDS
        )
        if not is_better:
            return False


def has_ended(view: WorkloadRow) -> bool:
    """Whether the job has ended; one whose slice was replaced goes on in the next slice."""
    return view.state in ENDED and view.state is not PhaseState.REPLACED


def is_hopeless(view: WorkloadRow) -> bool:
    """Whether the job waits for ever as things are."""
    return view.state is PhaseState.QUEUED and view.why.partition(":")[0] in HOPELESS
