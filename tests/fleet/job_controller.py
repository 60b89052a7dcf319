"""The controllers of all job kinds on a worker: released jobs run for a while and end.

Pods are not modelled as objects; that they run is. They outlive a suspended or deleted job by a
grace, as real ones do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

from multiqueue.embedded.cluster.simulated_kinds import JobPhase
from tests.fleet.api_server import ApiServer
from tests.fleet.history import Change, History
from tests.fleet.kinds import (
    INTEGRATIONS,
    JOB,
    JOB_PLURALS,
    ends_by_itself,
    has_ended,
    is_suspended,
    plural_of,
    status_of,
)
from tests.fleet.objects import Json, format_time

ACTOR = "job-controller"
SECONDS = "fleet/seconds"
"""Annotation of a Job: how long its pods run."""
STOP = "fleet/stop"
"""Annotation of a Job: how long its pods take to stop, at most."""
FAILS = "fleet/fails"
"""Annotation of a Job: it ends badly."""


@dataclass(slots=True)
class Pods:
    """The pods of one Job: since they run until they are gone."""

    key: str
    job: Json
    ending: bool = False


class JobController:
    """Runs the Jobs of one cluster.

    Args:
        server: Of the cluster.
        now: Wall-clock time there.
        history: Tells of changes.
        chance: Draws delays.
        on_pods: Called with cluster, job and whether its pods began or ended.
        on_served: Called with a job that ran for its time and does not end by itself.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        now: Callable[[], datetime],
        history: History,
        chance: Random,
        on_pods: Callable[[str, Json, bool], None],
        on_served: Callable[[Json], None],
    ) -> None:
        self.running: dict[str, Pods] = {}
        self._server = server
        self._now = now
        self._chance = chance
        self._on_pods = on_pods
        self._on_served = on_served
        self._starting: set[str] = set()
        self._runs: dict[str, int] = {}
        server.holds_foreground = lambda job: job["metadata"]["uid"] in self.running
        history.listen(self._on_change)

    def lose_all(self) -> None:
        """The cluster is gone, and its pods with it."""
        for uid in list(self.running):
            self._end(uid)

    def _on_change(self, change: Change) -> None:
        if change.cluster != self._server.name or change.plural not in JOB_PLURALS:
            return
        job = change.new or change.old
        assert job is not None
        uid = job["metadata"]["uid"]
        if INTEGRATIONS[job["kind"]].managed_by(job):
            return
        if change.new is None or job["metadata"].get("deletionTimestamp"):
            self._stop(uid)
        elif has_ended(job):
            return
        elif is_suspended(job):
            self._stop(uid)
            if uid not in self.running and _calls_for_suspended(job):
                self._later(0.05, lambda: self._say_suspended(job, uid))
        elif uid not in self.running and uid not in self._starting:
            self._starting.add(uid)
            self._later(self._chance.uniform(0.1, 2.0), lambda: self._start(job, uid))

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, call)

    def _find(self, job: Json) -> Json | None:
        """Return a job as it is now."""
        found = self._server.find(plural_of(job["kind"]), _key(job))
        same = found is not None and found["metadata"]["uid"] == job["metadata"]["uid"]
        return found if same else None

    def _start(self, before: Json, uid: str) -> None:
        self._starting.discard(uid)
        job = self._find(before)
        if job is None or is_suspended(job) or uid in self.running or has_ended(job):
            return
        if job["metadata"].get("deletionTimestamp"):
            return
        self.running[uid] = Pods(_key(job), job)
        run = self._runs[uid] = self._runs.get(uid, 0) + 1
        self._on_pods(self._server.name, job, True)
        self._set_status(job, JobPhase.READY)
        annotations = job["metadata"].get("annotations") or {}
        seconds = float(annotations.get(SECONDS, 30.0))
        self._later(seconds, lambda: self._complete(uid, run))

    def _complete(self, uid: str, run: int) -> None:
        pods = self.running.get(uid)
        if pods is None or pods.ending or self._runs.get(uid) != run:
            return
        if not ends_by_itself(pods.job):
            self._on_served(pods.job)
            return
        self._end(uid)
        job = self._find(pods.job)
        if job is None:
            return
        fails = FAILS in (pods.job["metadata"].get("annotations") or {})
        self._set_status(job, JobPhase.FAILED if fails else JobPhase.SUCCEEDED)
        self._server.finish_foreground(plural_of(job["kind"]), pods.key)

    def _stop(self, uid: str) -> None:
        """Ask the pods of a Job to end."""
        pods = self.running.get(uid)
        if pods is None or pods.ending:
            return
        pods.ending = True
        most = float((pods.job["metadata"].get("annotations") or {}).get(STOP, 4.0))
        self._later(self._chance.uniform(0.1, most), lambda: self._stopped(pods, uid))

    def _stopped(self, pods: Pods, uid: str) -> None:
        if self.running.get(uid) is not pods:
            return
        self._end(uid)
        job = self._find(pods.job)
        if job is None:
            return
        if job["metadata"].get("deletionTimestamp"):
            self._server.finish_foreground(plural_of(job["kind"]), pods.key)
        elif is_suspended(job):
            self._say_suspended(job, uid)
        else:
            # Released again while its pods were ending.
            self._set_status(job, None)
            self._starting.add(uid)
            self._later(0.1, lambda: self._start(job, uid))

    def _say_suspended(self, before: Json, uid: str) -> None:
        job = self._find(before)
        if job is not None and is_suspended(job) and uid not in self.running:
            self._set_status(job, JobPhase.SUSPENDED)

    def _end(self, uid: str) -> None:
        pods = self.running.pop(uid)
        self._on_pods(self._server.name, pods.job, False)

    def _set_status(self, job: Json, phase: JobPhase | None) -> None:
        """Write the status of a phase; of none: pods have stopped, and others are to start."""
        if job["kind"] == JOB:
            status = _job_status(job, phase, format_time(self._now()))
        else:
            status = status_of(job, phase or JobPhase.SUSPENDED)
        self._server.edit(
            plural_of(job["kind"]), _key(job), {"status": status}, subresource="status", actor=ACTOR
        )


def _job_status(job: Json, phase: JobPhase | None, now: str) -> Json:
    """Return what changes of the status of a batch/v1 Job."""
    count, zero = job["spec"].get("parallelism", 1), {"active": 0, "ready": 0}
    others = [each for each in _conditions(job) if each["type"] != "Suspended"]
    match phase:
        case None:
            return zero
        case JobPhase.SUSPENDED:
            status = job.get("status") or {}
            zero = {name: 0 for name in zero if status.get(name)}
            return {**zero, "conditions": [*others, _condition("Suspended", now)]}
        case JobPhase.FAILED:
            ends = [_condition("FailureTarget", now), _condition("Failed", now)]
            return {**zero, "conditions": ends, "failed": 1}
        case JobPhase.SUCCEEDED:
            ends = [_condition("SuccessCriteriaMet", now), _condition("Complete", now)]
            return {**zero, "conditions": ends, "succeeded": count, "completionTime": now}
        case _:
            return {"startTime": now, "active": count, "ready": count, "conditions": others}


def _condition(kind: str, now: str) -> Json:
    return {
        "type": kind,
        "status": "True",
        "reason": "r",
        "message": "m",
        "lastTransitionTime": now,
    }


def _key(job: Json) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _conditions(job: Json) -> list[Json]:
    return list((job.get("status") or {}).get("conditions") or ())


def _calls_for_suspended(job: Json) -> bool:
    """Whether the status of a suspended job does not say so yet."""
    if job["kind"] == JOB:
        return not any(c["type"] == "Suspended" for c in _conditions(job))
    return bool(job.get("status") != status_of(job, JobPhase.SUSPENDED))
