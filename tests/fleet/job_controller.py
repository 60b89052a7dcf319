"""Kubernetes' own part on a worker: Jobs that are released run for a while and end.

Pods are not modelled as objects; that they run is. They outlive a suspended or deleted Job by a
grace, as real ones do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

from tests.fleet.api_server import ApiServer
from tests.fleet.history import Change, History
from tests.fleet.objects import Json, format_time, is_over

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
        on_pods: Called with cluster, Job and whether its pods began or ended.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        now: Callable[[], datetime],
        history: History,
        chance: Random,
        on_pods: Callable[[str, Json, bool], None],
    ) -> None:
        self.running: dict[str, Pods] = {}
        self._server = server
        self._now = now
        self._chance = chance
        self._on_pods = on_pods
        self._starting: set[str] = set()
        self._runs: dict[str, int] = {}
        server.holds_foreground = lambda job: job["metadata"]["uid"] in self.running
        history.listen(self._on_change)

    def lose_all(self) -> None:
        """The cluster is gone, and its pods with it."""
        for uid in list(self.running):
            self._end(uid)

    def _on_change(self, change: Change) -> None:
        if change.cluster != self._server.name or change.plural != "jobs":
            return
        job = change.new or change.old
        assert job is not None
        uid = job["metadata"]["uid"]
        if job["spec"].get("managedBy"):
            return
        if change.new is None or job["metadata"].get("deletionTimestamp"):
            self._stop(uid)
        elif is_over(job):
            return
        elif job["spec"].get("suspend"):
            self._stop(uid)
            if uid not in self.running and _calls_for_suspended(job):
                self._later(0.05, lambda: self._say_suspended(change.key, uid))
        elif uid not in self.running and uid not in self._starting:
            self._starting.add(uid)
            self._later(self._chance.uniform(0.1, 2.0), lambda: self._start(change.key, uid))

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, call)

    def _find(self, key: str, uid: str) -> Json | None:
        job = self._server.find("jobs", key)
        return job if job is not None and job["metadata"]["uid"] == uid else None

    def _start(self, key: str, uid: str) -> None:
        self._starting.discard(uid)
        job = self._find(key, uid)
        if job is None or job["spec"].get("suspend") or uid in self.running or is_over(job):
            return
        if job["metadata"].get("deletionTimestamp"):
            return
        self.running[uid] = Pods(key, job)
        run = self._runs[uid] = self._runs.get(uid, 0) + 1
        self._on_pods(self._server.name, job, True)
        count = job["spec"].get("parallelism", 1)
        conditions = [c for c in _conditions(job) if c["type"] != "Suspended"]
        self._set_status(
            key,
            startTime=format_time(self._now()),
            active=count,
            ready=count,
            conditions=conditions,
        )
        annotations = job["metadata"].get("annotations") or {}
        seconds = float(annotations.get(SECONDS, 30.0))
        self._later(seconds, lambda: self._complete(key, uid, run))

    def _complete(self, key: str, uid: str, run: int) -> None:
        pods = self.running.get(uid)
        if pods is None or pods.ending or self._runs.get(uid) != run:
            return
        self._end(uid)
        if self._find(key, uid) is None:
            return
        fails = FAILS in (pods.job["metadata"].get("annotations") or {})
        now = format_time(self._now())
        kinds = ("FailureTarget", "Failed") if fails else ("SuccessCriteriaMet", "Complete")
        count = pods.job["spec"].get("parallelism", 1)
        ends = [
            {
                "type": kind,
                "status": "True",
                "reason": "r",
                "message": "m",
                "lastTransitionTime": now,
            }
            for kind in kinds
        ]
        status = {"failed": 1} if fails else {"succeeded": count, "completionTime": now}
        self._set_status(key, active=0, ready=0, conditions=ends, **status)
        self._server.finish_foreground("jobs", key)

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
        job = self._find(pods.key, uid)
        if job is None:
            return
        if job["metadata"].get("deletionTimestamp"):
            self._server.finish_foreground("jobs", pods.key)
        elif job["spec"].get("suspend"):
            self._say_suspended(pods.key, uid)
        else:
            # Released again while its pods were ending.
            self._set_status(pods.key, active=0, ready=0)
            self._starting.add(uid)
            self._later(0.1, lambda: self._start(pods.key, uid))

    def _say_suspended(self, key: str, uid: str) -> None:
        job = self._find(key, uid)
        if job is None or not job["spec"].get("suspend") or uid in self.running:
            return
        now = format_time(self._now())
        suspended = {"type": "Suspended", "status": "True", "lastTransitionTime": now}
        others = [c for c in _conditions(job) if c["type"] != "Suspended"]
        status = job.get("status") or {}
        zero = {name: 0 for name in ("active", "ready") if status.get(name)}
        self._set_status(key, conditions=[*others, suspended], **zero)

    def _end(self, uid: str) -> None:
        pods = self.running.pop(uid)
        self._on_pods(self._server.name, pods.job, False)

    def _set_status(self, key: str, **status: object) -> None:
        self._server.edit("jobs", key, {"status": status}, subresource="status", actor=ACTOR)


def _conditions(job: Json) -> list[Json]:
    return list((job.get("status") or {}).get("conditions") or ())


def _calls_for_suspended(job: Json) -> bool:
    return not any(c["type"] == "Suspended" for c in _conditions(job))
