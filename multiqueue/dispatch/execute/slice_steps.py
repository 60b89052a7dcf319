"""The steps of elastic jobs that are done on workers (M-161, M-163)."""

from __future__ import annotations

from typing import Any

import structlog

from multiqueue.api.slices import counts_of
from multiqueue.dispatch.decide.copy import digest_of, stamp_job
from multiqueue.dispatch.execute.outcome import DONE, WAITING, Outcome
from multiqueue.dispatch.execute.remote_steps import RemoteSteps
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]

log = structlog.get_logger("multiqueue.dispatch")


class SliceSteps:
    """Does the steps on workers that only elastic jobs need.

    Args:
        fleet: The workers.
        remote: Sends requests to them, and judges the answers.
    """

    def __init__(self, fleet: Fleet, remote: RemoteSteps) -> None:
        self._fleet = fleet
        self._remote = remote

    async def take_job_over(self, cluster: str, seen: Observation, memory: GroupMemory) -> Outcome:
        """Make the job of an earlier slice belong to this one, at its size."""
        jobs = (self._find_job(cluster, key) for key in seen.view.earlier)
        job = next((job for job in jobs if job is not None), None)
        return await self._resize(cluster, seen, memory, job)

    async def resize_job(self, cluster: str, seen: Observation, memory: GroupMemory) -> Outcome:
        """Bring the size of the remote job to that of the slice."""
        return await self._resize(cluster, seen, memory, self._find_job(cluster, seen.view.key))

    async def _resize(
        self, cluster: str, seen: Observation, memory: GroupMemory, remote: Json | None
    ) -> Outcome:
        workload, adapter, local = seen.workload, seen.adapter, seen.job
        if workload is None or adapter is None or local is None or remote is None:
            return WAITING
        patch = adapter.resize_patch(
            local,
            remote,
            workload_name=workload.metadata.name,
            pods=counts_of(workload.spec.pod_sets),
        )
        if patch is None:
            return DONE
        if "metadata" in patch:
            patch = stamp_job(patch, workload, owner=self._fleet.owner)
            # Recorded before the request, which may succeed without our knowing.
            memory.suspects.add(cluster)
        outcome = await self._remote.patch_job(cluster, remote, patch, seen, memory)
        if outcome is DONE:
            log.info("remote job resized", worker=cluster, workload=seen.view.key)
        return outcome

    async def resize_copy(self, cluster: str, seen: Observation, memory: GroupMemory) -> Outcome:
        """Reduce the pod counts of a copy."""
        workload, key = seen.workload, seen.view.key
        if workload is None:
            return WAITING
        counts = counts_of(workload.spec.pod_sets)
        digest = digest_of(workload)
        got = await self._remote.call(
            "resize copy",
            cluster,
            key,
            lambda writer: writer.resize_workload(key, counts, digest),
        )
        return self._remote.judge(got, cluster, seen, memory)

    def _find_job(self, cluster: str, key: str) -> Json | None:
        session = self._fleet.find_session(cluster)
        if session is None:
            return None
        return next((job for _, job in session.find_jobs(key)), None)
