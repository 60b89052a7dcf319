"""Gangs that need fewer pods on some hardware."""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.model.build import build_workload
from tests.fleet.checkers.checker import Checker
from tests.fleet.checkers.words import has, is_ours, is_released
from tests.fleet.history import Change
from tests.fleet.objects import Json
from tests.fleet.played_kueue import GPU
from tests.fleet.world import HUB, workload_key


class PodsAreCounted(Checker):
    """A gang has as many pods on a worker as its copy, fewer only where they do; so many count."""

    def on_change(self, change: Change) -> None:
        if change.new is None:
            return
        if change.cluster == HUB and change.plural == "workloads":
            self._look_at_quota(change, change.new)
        elif change.cluster != HUB and change.plural == "jobs" and is_ours(change.new):
            self._look_at_job(change, change.new)

    def _look_at_job(self, change: Change, job: Json) -> None:
        plan = next((p for p in self.world.plan.jobs if p.name == job["metadata"]["name"]), None)
        if plan is None or not plan.halves or not is_released(job):
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

    def _look_at_quota(self, change: Change, workload: Json) -> None:
        """When a cluster gets it, its quota is that of what runs there."""
        cluster = (workload.get("status") or {}).get("clusterName")
        before = ((change.old or {}).get("status") or {}).get("clusterName")
        if not cluster or before or not has(workload, "QuotaReserved"):
            return
        if names.ALTERNATIVES not in (workload["metadata"].get("annotations") or {}):
            return
        copy = self.world.workers[cluster].find("workloads", change.key) or {}
        admission = (copy.get("status") or {}).get("admission")
        reservation = build_workload(decode(Workload, workload)).reservation
        if admission is None or reservation is None:
            return
        runs = admission["podSetAssignments"][0]["count"]
        held = reservation.admission.usage()["gpu", GPU]
        if held != runs:
            self.report(f"{change.key} holds quota for {held} pods, {runs} run on {cluster}")
