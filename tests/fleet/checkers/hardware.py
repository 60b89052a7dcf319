"""Gangs that need fewer pods on some hardware."""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.model.build_workload import build_workload
from tests.fleet.checkers.checker import Checker
from tests.fleet.checkers.words import find_job, has, is_ours, is_released, latch_of
from tests.fleet.history import Change
from tests.fleet.objects import Json
from tests.fleet.plan import JobPlan
from tests.fleet.played_kueue import GPU
from tests.fleet.world import HUB, workload_key


class PodsAreCounted(Checker):
    """A gang has as many pods on a worker as its copy, fewer only where they do; so many count.

    So many does the job on the manager say it has while it runs, and all of them else.
    """

    def on_change(self, change: Change) -> None:
        if change.new is None:
            return
        if change.cluster == HUB and change.plural == "workloads":
            self._look_at_quota(change, change.new)
        elif change.cluster == HUB and change.plural == "jobs":
            self._look_at_local_job(change.new)
        elif change.cluster != HUB and change.plural == "jobs" and is_ours(change.new):
            self._look_at_job(change, change.new)

    def _look_at_job(self, change: Change, job: Json) -> None:
        plan = self._plan_of(job)
        if plan is None or not is_released(job):
            return
        pods, completions = job["spec"]["parallelism"], job["spec"]["completions"]
        key = workload_key("jobs", job)
        copy = self.world.workers[change.cluster].find("workloads", key)
        if copy is not None and copy["spec"]["podSets"][0]["count"] != pods:
            self.report(f"{key} has {pods} pods on {change.cluster}, its copy another number")
        if pods != completions:
            self.report(f"{key} has {pods} pods for {completions} ranks on {change.cluster}")
        fewest = plan.gpus // 2 if change.cluster in self.world.plan.fast else plan.gpus
        if not fewest <= pods <= plan.gpus:
            self.report(f"{key} has {pods} pods on {change.cluster}")
        if pods < plan.gpus:
            self.world.history.note("halved", lambda: f"{key} on {change.cluster}")

    def _plan_of(self, job: Json) -> JobPlan | None:
        """Return what was planned for the job of a gang with alternatives."""
        name = job["metadata"]["name"]
        return next((p for p in self.world.plan.jobs if p.name == name and p.halves), None)

    def _look_at_local_job(self, job: Json) -> None:
        plan = self._plan_of(job)
        if plan is None or names.STOPPING in (job["metadata"].get("annotations") or {}):
            return
        name, pods = job["metadata"]["name"], job["spec"]["parallelism"]
        if job["spec"].get("suspend"):
            if pods != plan.gpus:
                self.report(f"{name} asks for {pods} pods of {plan.gpus} on the manager")
            return
        workload = self.world.workload_of(name)
        key = workload_key("workloads", workload) if workload is not None else ""
        cluster = latch_of(self.world, key)
        there = find_job(self.world, cluster, key) if cluster else None
        if there is not None and there["spec"]["parallelism"] != pods:
            self.report(f"{name} has {pods} pods on the manager, another number on {cluster}")

    def _look_at_quota(self, change: Change, workload: Json) -> None:
        """Before it is admitted all that was reserved counts, from then on what runs there."""
        if names.ALTERNATIVES not in (workload["metadata"].get("annotations") or {}):
            return
        reservation = build_workload(decode(Workload, workload)).reservation
        if reservation is None:
            return
        held = reservation.admission.usage()["gpu", GPU]
        reserved = workload["status"]["admission"]["podSetAssignments"][0]["count"]
        if not has(workload, "Admitted") and held != reserved:
            self.report(f"{change.key} holds quota for {held} pods, and may need {reserved}")
        cluster = workload["status"].get("clusterName")
        if not cluster or ((change.old or {}).get("status") or {}).get("clusterName"):
            return
        copy = self.world.workers[cluster].find("workloads", change.key) or {}
        admission = (copy.get("status") or {}).get("admission")
        runs = admission["podSetAssignments"][0]["count"] if admission is not None else held
        if held != runs:
            self.report(f"{change.key} holds quota for {held} pods, {runs} run on {cluster}")
