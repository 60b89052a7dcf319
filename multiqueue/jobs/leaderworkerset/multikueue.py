"""LeaderWorkerSets on workers: each group is a set of its own there. Parity: J-313, M-101.

Deviates: upstream sends the whole set to the worker of its first group, where the other groups may
wait although another worker has room. Here each group is dispatched by itself.
"""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.job_source import SingleObjects
from multiqueue.lib.digits import is_number


class GroupSource(SingleObjects):
    """The source of LeaderWorkerSets: the job of a Workload is one group of its owner."""

    def find_owner(self, workload: Workload) -> Job | None:
        """Return the group that a Workload stands for, as a set with one replica."""
        job = super().find_owner(workload)
        index = workload.metadata.annotations.get(names.COMPONENT_WORKLOAD_INDEX, "0")
        return as_set(job, int(index)) if job is not None and is_number(index) else None


def as_set(job: Job, index: int) -> Job:
    """Return one group as a LeaderWorkerSet.

    The first one keeps the name, so that workers with upstream Kueue find its Workload (M-144).
    """
    name = job["metadata"]["name"]
    metadata = {**job["metadata"], "name": f"{name}-replica-{index}" if index else name}
    return {**job, "metadata": metadata, "spec": {**(job.get("spec") or {}), "replicas": 1}}
