"""Follows every job of the demo: submitted, queued, dispatched, running, ended.

A job's state is what the manager reports. When and where its pods ran is read from the workers
themselves, so that a job on two workers at once would be noticed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from multiqueue.api.conditions import Reason
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota
from multiqueue.kube.client import KubeClient
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import JOBS, PODS, WORKLOADS
from multiqueue.runtime.components import TaskScope
from multiqueue.runtime.demo.jobs import DemoJob
from multiqueue.views.phase import AT_WORK, ENDED, PhaseState, find_phase

PROMISE = re.compile(r"; (?P<words>room is kept for this Workload, which starts by (?P<at>\S+Z))")
"""How a condition says that room is kept."""
HOPELESS = frozenset({Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR})
"""Reasons that mean: the job can never be admitted."""


class JobStage(StrEnum):
    """The stages of a job, in order."""

    SUBMITTED = "Submitted"
    QUEUED = "Queued"
    DISPATCHED = "Dispatched"
    STARTING = "Starting"
    MOVING = "Moving"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    IMPOSSIBLE = "Impossible"
    REFUSED = "Refused"

    @property
    def is_final(self) -> bool:
        """Whether no further stage follows."""
        return self in _FINAL


_STAGES = {
    PhaseState.QUEUED: JobStage.QUEUED,
    PhaseState.CHECKING: JobStage.QUEUED,
    PhaseState.DISPATCHED: JobStage.DISPATCHED,
    PhaseState.ADMITTED: JobStage.STARTING,
    PhaseState.STARTING: JobStage.STARTING,
    PhaseState.RUNNING: JobStage.RUNNING,
    PhaseState.MOVING: JobStage.MOVING,
    PhaseState.EVICTED: JobStage.MOVING,
    PhaseState.DEACTIVATED: JobStage.QUEUED,
    PhaseState.REJECTED: JobStage.IMPOSSIBLE,
    PhaseState.SUCCEEDED: JobStage.SUCCEEDED,
    PhaseState.FAILED: JobStage.FAILED,
    PhaseState.REPLACED: JobStage.RUNNING,
}
_FINAL = frozenset({JobStage.SUCCEEDED, JobStage.FAILED, JobStage.IMPOSSIBLE, JobStage.REFUSED})


@dataclass(slots=True, kw_only=True)
class Track:
    """One job. Times are those of the event loop's clock, in seconds.

    Attributes:
        worker: The worker on which it runs or ran; empty before it is dispatched.
        ran_on: Every cluster on which a pod of it was seen running.
        promised_at: By when it starts, as it was told first; None if no room was kept for it.
        remote_at: When its job appeared on the worker.
    """

    job: DemoJob
    submitted_at: float
    stage: JobStage = JobStage.SUBMITTED
    reason: str = ""
    worker: str = ""
    nominated: tuple[str, ...] = ()
    ran_on: set[str] = field(default_factory=set)
    queued_at: float | None = None
    promised_at: float | None = None
    reserved_at: float | None = None
    remote_at: float | None = None
    running_at: float | None = None
    stopped_at: float | None = None
    ended_at: float | None = None

    @property
    def waited_seconds(self) -> float | None:
        """The seconds from submission to running."""
        return None if self.running_at is None else self.running_at - self.submitted_at

    @property
    def ran_seconds(self) -> float | None:
        """The seconds from running to the end on the worker."""
        if self.running_at is None:
            return None
        end = self.stopped_at or self.ended_at
        return None if end is None else max(0.0, end - self.running_at)


class Tracker:
    """Keeps a `Track` of every announced job.

    Args:
        clients: The client of each cluster, by cluster name.
        manager: The name of the manager's cluster.
        on_change: Called after each change of a track.
    """

    def __init__(
        self,
        clients: Mapping[str, KubeClient],
        *,
        manager: str,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.tracks: dict[str, Track] = {}
        self.changed = asyncio.Event()
        self._on_change = on_change
        self.workloads = Informer(
            clients[manager], WORKLOADS, decode=lambda data: decode(Workload, data)
        )
        self.workloads.add_handler(self._on_workload)
        self._informers: list[Informer[Any]] = [self.workloads]
        self.pods: dict[str, Informer[dict[str, Any]]] = {}
        for name, client in clients.items():
            jobs: Informer[dict[str, Any]] = Informer(client, JOBS)
            jobs.add_handler(self._job_handler(name, is_manager=name == manager))
            self.pods[name] = Informer(client, PODS)
            self._informers += [jobs, self.pods[name]]

    async def start(self, scope: TaskScope) -> None:
        """Begin to watch; return once all informers have synced."""
        for informer in self._informers:
            scope.create_task(informer.run())
        for informer in self._informers:
            await informer.synced.wait()

    def announce(self, job: DemoJob) -> Track:
        """Follow a job that will be submitted next."""
        track = Track(job=job, submitted_at=_now())
        self.tracks[job.key] = track
        self._note()
        return track

    def refuse(self, job: DemoJob, reason: str) -> None:
        """Record that the API server refused the job."""
        track = self.tracks[job.key]
        track.stage, track.reason, track.ended_at = JobStage.REFUSED, reason, _now()
        self._note()

    def forget(self, key: str) -> None:
        """Stop following a job."""
        self.tracks.pop(key, None)

    async def wait_for(self, is_done: Callable[[], bool]) -> None:
        """Return once a condition holds; it is checked after every change."""
        while not is_done():
            self.changed.clear()
            await self.changed.wait()

    def _on_workload(self, _old: Workload | None, new: Workload | None) -> None:
        if new is None:
            return
        for owner in new.metadata.owner_references:
            track = self.tracks.get(f"{new.metadata.namespace}/{owner.name}")
            if track is not None and not track.stage.is_final:
                observe_workload(track, new, _now())
                self._note()

    def _job_handler(
        self, cluster: str, *, is_manager: bool
    ) -> Callable[[dict[str, Any] | None, dict[str, Any] | None], None]:
        def handle(_old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            if new is None or (is_manager and new["spec"].get("managedBy")):
                return
            track = self.tracks.get(f"{new['metadata']['namespace']}/{new['metadata']['name']}")
            if track is not None:
                observe_remote_job(track, new, cluster, _now())
                self._note()

        return handle

    def _note(self) -> None:
        self.changed.set()
        self._on_change()


def observe_workload(track: Track, workload: Workload, at: float) -> None:
    """Update a track from the manager's Workload."""
    phase = find_phase(workload)
    track.queued_at = track.queued_at or at
    track.nominated, track.worker = phase.offered_to, phase.worker
    track.stage, track.reason = _STAGES[phase.state], phase.why
    if phase.state in ENDED:
        track.ended_at = at
        return
    track.reserved_at = track.reserved_at or at if has_quota(workload.status) else None
    if track.promised_at is None and (promise := PROMISE.search(phase.why)) is not None:
        promised = datetime.fromisoformat(promise["at"])
        track.promised_at = at + (promised - datetime.now(UTC)).total_seconds()
    if phase.state is PhaseState.QUEUED and phase.why.partition(":")[0] in HOPELESS:
        track.stage = JobStage.IMPOSSIBLE
    elif phase.state in AT_WORK and track.running_at is not None:
        track.stage = JobStage.RUNNING


def observe_remote_job(track: Track, job: Mapping[str, Any], cluster: str, at: float) -> None:
    """Update a track from the job on a worker."""
    status = job.get("status") or {}
    track.remote_at = track.remote_at or at
    if status.get("ready"):
        track.ran_on.add(cluster)
        if status["ready"] >= track.job.pods:
            track.running_at = track.running_at or at
            if track.stage in {JobStage.DISPATCHED, JobStage.STARTING}:
                track.stage = JobStage.RUNNING
    ended = any(
        condition["type"] in {"Complete", "Failed"} and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    if ended:
        track.ran_on.add(cluster)
        track.stopped_at = track.stopped_at or at


def _now() -> float:
    return asyncio.get_running_loop().time()
