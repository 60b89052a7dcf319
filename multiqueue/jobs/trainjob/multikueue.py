"""TrainJobs on workers, which need the runtimes, too. Pure. Parity: J-443."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.jobs.framework.copy_adapter import CopyAdapter
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.multikueue import NO_PODS
from multiqueue.jobs.trainjob.integration import TrainJob
from multiqueue.jobs.trainjob.runtime_patches import without_entry


class TrainJobAdapter(CopyAdapter):
    """The adapter of TrainJobs: the worker's webhook adds an entry of its own."""

    def __init__(self, kind: TrainJob) -> None:
        super().__init__(kind, success="Complete", dropped=())

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """Copy the job without the manager's entry of the runtime patches."""
        copy = super().remote_job(local, workload_name=workload_name, origin=origin, pods=pods)
        return without_entry(copy)
