"""What stands around the engine in a control plane, reduced to what decides: jobs and workloads.

A tiny pure model of the job reconciler and of the workload controller (E-103 to E-118), so that
recorded scenarios can be replayed in process on a virtual clock. Nothing here is shipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition, is_true, set_condition
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Admit, Preempt
from multiqueue.jobs.framework.topology_request import build_topology_request
from multiqueue.model.build_workload import admission_to_wire, build_workload
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    build_cluster_queue,
    build_cohort,
    build_local_queue,
)
from multiqueue.model.resource_flavor import build_resource_flavor, build_topology
from multiqueue.model.resources import parse_request
from multiqueue.model.topology import Node

QR = WorkloadCondition.QUOTA_RESERVED
KIND_BY_NAME = {
    "ClusterQueue": (api.ClusterQueue, build_cluster_queue, "upsert_cluster_queue"),
    "Cohort": (api.Cohort, build_cohort, "upsert_cohort"),
    "LocalQueue": (api.LocalQueue, build_local_queue, "upsert_local_queue"),
    "ResourceFlavor": (api.ResourceFlavor, build_resource_flavor, "upsert_resource_flavor"),
    "Topology": (api.Topology, build_topology, "upsert_topology"),
}


def make_node(obj: dict[str, Any]) -> Node:
    """A Node that is always ready."""
    meta, allocatable = obj["metadata"], obj["status"]["allocatable"]
    return Node(
        name=meta["name"],
        labels=meta["labels"],
        allocatable={name: parse_request(name, raw) for name, raw in allocatable.items()},
    )


@dataclass
class VirtualJob:
    """A Job and its Workload."""

    name: str
    workload: api.Workload
    suspended: bool = True
    finished: bool = False


@dataclass
class VirtualCluster:
    """API objects, the controllers around the engine, and the engine itself."""

    engine: Engine
    now: datetime
    jobs: dict[str, VirtualJob] = field(default_factory=dict)
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    local_queues: dict[str, str] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    unborn: list[str] = field(default_factory=list)
    samples: dict[str, datetime] = field(default_factory=dict)
    """When to sample the past usage of a LocalQueue next."""
    last_change: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.last_change = self.now

    # ------------------------------------------------------------ objects

    def create(self, obj: dict[str, Any]) -> None:
        kind, meta = obj["kind"], obj["metadata"]
        self.last_change = self.now
        if kind == "Namespace":
            self.engine.upsert_namespace(meta["name"], meta.get("labels") or {})
        elif kind == "WorkloadPriorityClass":
            self.priorities[meta["name"]] = obj["value"]
        elif kind == "AdmissionCheck":
            controller = obj["spec"]["controllerName"]
            info = AdmissionCheckInfo(name=meta["name"], active=True, controller_name=controller)
            self.engine.upsert_admission_check(info)
        elif kind == "Node":
            self.engine.upsert_node(make_node(obj))
        elif kind == "Job":
            self._create_job(obj)
        else:
            self._upsert(obj)

    def apply(self, obj: dict[str, Any]) -> None:
        old = self.queues[obj["metadata"]["name"]]
        self._upsert({**old, "spec": {**old["spec"], **obj["spec"]}})

    def _upsert(self, obj: dict[str, Any]) -> None:
        type_, build_noun, method = KIND_BY_NAME[obj["kind"]]
        if obj["kind"] == "ClusterQueue":
            self.queues[obj["metadata"]["name"]] = obj
        noun = build_noun(decode(type_, obj))
        getattr(self.engine, method)(noun)
        if obj["kind"] == "LocalQueue":
            self.local_queues[obj["metadata"]["name"]] = obj["spec"]["clusterQueue"]
            if self.engine.usage is not None:
                self.samples[noun.key] = self.now

    def _create_job(self, obj: dict[str, Any]) -> None:
        meta, spec = obj["metadata"], obj["spec"]
        labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
        minimum = annotations.get(names.JOB_MIN_PARALLELISM)
        workload = api.Workload(
            metadata=api.ObjectMeta(
                name=f"job-{meta['name']}",
                namespace=meta["namespace"],
                uid=f"uid-{len(self.jobs):04}",
                generation=1,
                creation_timestamp=format_time(self.now),
            ),
            spec=api.WorkloadSpec(
                queue_name=labels[names.QUEUE_NAME],
                priority=self.priorities.get(labels.get(names.PRIORITY_CLASS, ""), 0),
                pod_sets=(
                    api.PodSet(
                        name="main",
                        count=spec["parallelism"],
                        min_count=int(minimum) if minimum else None,
                        template=spec["template"],
                        topology_request=build_topology_request(spec["template"]),
                    ),
                ),
            ),
        )
        self.jobs[meta["name"]] = VirtualJob(name=meta["name"], workload=workload)
        self.unborn.append(meta["name"])

    def make_workload(self) -> bool:
        """Let the job reconciler make the Workload of the oldest new Job; whether there was one."""
        if not self.unborn:
            return False
        job = self.jobs.get(self.unborn.pop(0))
        if job is not None:
            self._write(job, job.workload, is_new=True)
        return True

    # ------------------------------------------------------------ users and kubelets

    def finish(self, name: str) -> None:
        job = self.jobs[name]
        job.finished = True
        self._set(job, WorkloadCondition.FINISHED, status=True, reason=Reason.SUCCEEDED)

    def delete(self, name: str) -> None:
        job = self.jobs.pop(name, None)
        if job is not None:
            self.last_change = self.now
            self.engine.delete_workload(job.workload.metadata.key, self.now)

    def set_check(self, name: str, check: str, state: str) -> None:
        job = self.jobs[name]
        moment = format_time(self.now)
        checks = tuple(
            replace(c, state=state, last_transition_time=moment) if c.name == check else c
            for c in job.workload.status.admission_checks
        )
        self._write_status(job, admission_checks=checks)

    # ------------------------------------------------------------ controllers

    def step_controllers(self) -> bool:
        """Let the first workload that has something to do take one step; whether one had."""
        for job in sorted(self.jobs.values(), key=lambda j: j.name):
            before = (job.workload, job.suspended)
            if not job.finished and job.name not in self.unborn:
                self._reconcile(job)
            if (job.workload, job.suspended) != before:
                self.last_change = self.now
                return True
        return False

    def run_engine(self) -> bool:
        """Run the engine and write its decisions back; whether it admitted or preempted."""
        plan = self.engine.run_cycle(self.now)
        acted = False
        for decision in plan.decisions:
            match decision:
                case Admit():
                    self._admit(decision)
                    acted = True
                case Preempt():
                    acted |= self._preempt(decision)
        return acted

    def _job_of(self, workload: str) -> VirtualJob | None:
        return next((j for j in self.jobs.values() if j.workload.metadata.key == workload), None)

    def _preempt(self, decision: Preempt) -> bool:
        victims = [victim for victim in decision.victims if victim.is_new]
        for victim in victims:
            job = self._job_of(victim.workload)
            if job is not None:
                self._evict(job, Reason.PREEMPTED)
                self._set(job, WorkloadCondition.PREEMPTED, status=True, reason=victim.reason)
        return bool(victims)

    def _admit(self, decision: Admit) -> None:
        job = self._job_of(decision.workload)
        assert job is not None, "only known workloads are admitted"
        conditions = job.workload.status.conditions
        for type_ in (WorkloadCondition.EVICTED, WorkloadCondition.PREEMPTED):
            if is_true(conditions, type_):
                conditions = self._conditions(conditions, type_, False, Reason.QUOTA_RESERVED)
        conditions = self._conditions(conditions, QR, True, Reason.QUOTA_RESERVED)
        old = {c.name: c for c in job.workload.status.admission_checks}
        checks = tuple(
            old.get(n)
            or api.AdmissionCheckState(name=n, last_transition_time=format_time(self.now))
            for n in decision.checks
        )
        if decision.admitted:
            conditions = self._conditions(
                conditions, WorkloadCondition.ADMITTED, True, Reason.ADMITTED
            )
        admission = decode(api.Admission, admission_to_wire(decision.admission))
        self._write_status(job, conditions=conditions, admission=admission, admission_checks=checks)

    def _reconcile(self, job: VirtualJob) -> None:
        self._sync_checks(job)
        status = job.workload.status
        if is_true(status.conditions, WorkloadCondition.EVICTED):
            if job.workload.spec.active:
                self._requeue_when_over(job)
            job.suspended = True
            if is_true(status.conditions, QR):
                self._clear_reservation(job)
            return
        if not is_true(status.conditions, QR):
            return
        if is_true(status.conditions, WorkloadCondition.ADMITTED):
            job.suspended = False
        if self._reconcile_checks(job):
            return
        policy = self._queue_of(job)["spec"].get("stopPolicy", "None")
        if policy == "HoldAndDrain" and is_true(status.conditions, WorkloadCondition.ADMITTED):
            self._evict(job, Reason.CLUSTER_QUEUE_STOPPED)
        elif policy != "None" and not is_true(status.conditions, WorkloadCondition.ADMITTED):
            conditions = self._conditions(status.conditions, QR, False, Reason.SUSPENDED)
            self._write_status(job, conditions=conditions, admission=None)

    def _sync_checks(self, job: VirtualJob) -> None:
        """Give the workload the checks of its flavors, or of the whole queue (E-111)."""
        spec = self._queue_of(job)["spec"]
        rules = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks", ())
        all_flavors = {f["name"] for group in spec["resourceGroups"] for f in group["flavors"]}
        admission = job.workload.status.admission
        assigned = {
            flavor
            for assignment in (admission.pod_set_assignments if admission else ())
            for flavor in assignment.flavors.values()
        }
        wanted = set()
        for rule in rules:
            flavors = set(rule.get("onFlavors") or all_flavors)
            if flavors & assigned if admission else flavors >= all_flavors:
                wanted.add(rule["name"])
        old = {c.name: c for c in job.workload.status.admission_checks}
        moment = format_time(self.now)
        checks = tuple(
            old.get(n) or api.AdmissionCheckState(name=n, last_transition_time=moment)
            for n in sorted(wanted)
        )
        self._write_status(job, admission_checks=checks)

    def _reconcile_checks(self, job: VirtualJob) -> bool:
        """Sync Admitted with the checks, evict where one says no (E-110, E-112)."""
        status = job.workload.status
        states = {check.state for check in status.admission_checks}
        if CheckState.REJECTED in states:
            spec = replace(job.workload.spec, active=False)
            self._write(job, replace(job.workload, spec=spec))
            self._evict(job, f"{Reason.DEACTIVATED}DueTo{Reason.ADMISSION_CHECK}")
            return True
        if CheckState.RETRY in states:
            self._evict(job, Reason.ADMISSION_CHECK)
            return True
        if states <= {CheckState.READY} and not is_true(
            status.conditions, WorkloadCondition.ADMITTED
        ):
            self._set(job, WorkloadCondition.ADMITTED, status=True, reason=Reason.ADMITTED)
            return True
        return False

    def _evict(self, job: VirtualJob, reason: str) -> None:
        status = job.workload.status
        checks = tuple(
            replace(c, state="Pending", last_transition_time=format_time(self.now))
            for c in status.admission_checks
        )
        conditions = self._conditions(status.conditions, WorkloadCondition.EVICTED, True, reason)
        self._write_status(job, conditions=conditions, admission_checks=checks)

    def _clear_reservation(self, job: VirtualJob) -> None:
        status = job.workload.status
        evicted = next(c for c in status.conditions if c.type == WorkloadCondition.EVICTED)
        requeued = evicted.reason in {Reason.PREEMPTED, Reason.NODE_FAILURES}
        conditions = self._conditions(
            status.conditions, WorkloadCondition.REQUEUED, requeued, evicted.reason
        )
        conditions = self._conditions(conditions, QR, False, Reason.PENDING_EVALUATION)
        if is_true(conditions, WorkloadCondition.ADMITTED):
            conditions = self._conditions(
                conditions, WorkloadCondition.ADMITTED, False, Reason.NO_RESERVATION
            )
        self._write_status(job, conditions=conditions, admission=None)

    def _requeue_when_over(self, job: VirtualJob) -> None:
        """Let a workload be tried again when what it was evicted for is over (E-105)."""
        requeued = next(
            (
                c
                for c in job.workload.status.conditions
                if c.type == WorkloadCondition.REQUEUED and c.status == "False"
            ),
            None,
        )
        if requeued is None:
            return
        if requeued.reason == Reason.ADMISSION_CHECK:
            self._set(job, requeued.type, status=True, reason=Reason.BACKOFF_FINISHED)
        stop_policy = self._queue_of(job)["spec"].get("stopPolicy", "None")
        if requeued.reason == Reason.CLUSTER_QUEUE_STOPPED and stop_policy == "None":
            self._set(job, requeued.type, status=True, reason=Reason.CLUSTER_QUEUE_RESTARTED)

    def _queue_of(self, job: VirtualJob) -> dict[str, Any]:
        return self.queues[self.local_queues[job.workload.spec.queue_name]]

    # ------------------------------------------------------------ writes

    def _set(self, job: VirtualJob, type_: str, *, status: bool, reason: str) -> None:
        conditions = self._conditions(job.workload.status.conditions, type_, status, reason)
        self._write_status(job, conditions=conditions)

    def _conditions(
        self, conditions: tuple[api.Condition, ...], type_: str, status: bool, reason: str
    ) -> tuple[api.Condition, ...]:
        return set_condition(
            conditions, type_=type_, status=status, reason=reason, message="", now=self.now
        )

    def _write_status(self, job: VirtualJob, **changes: Any) -> None:
        status = replace(job.workload.status, **changes)
        self._write(job, replace(job.workload, status=status))

    def _write(self, job: VirtualJob, workload: api.Workload, *, is_new: bool = False) -> None:
        if workload == job.workload and not is_new:
            return
        job.workload = workload
        self.last_change = self.now
        self.engine.upsert_workload(build_workload(workload), self.now)

    # ------------------------------------------------------------ time

    def _sample(self) -> None:
        """Sample past usage where that is due, as the LocalQueue controller does (E-122)."""
        usage = self.engine.usage
        for local_queue, due_at in self._due_samples().items():
            if usage is not None and due_at <= self.now:
                usage.announce(local_queue, self.now)
                usage.sample(local_queue, self.now)
                self.samples[local_queue] = self.now + usage.sampling_interval

    def _due_samples(self) -> dict[str, datetime]:
        """When to sample which LocalQueue; those that are not active are left alone."""
        states = {name: self.engine.local_queue_state(name) for name in self.samples}
        return {name: at for name, at in self.samples.items() if (s := states[name]) and s.active}

    def settle(self, *, at_least: timedelta, quiet: timedelta) -> None:
        """Let everything happen until nothing has changed for a while, as the driver waits."""
        begun = self.now
        self.last_change = self.now
        while True:
            self._sample()
            while self.run_engine() or self.step_controllers() or self.make_workload():
                pass
            end = max(begun + at_least, self.last_change + quiet)
            timers = (self.engine.next_cycle_at(self.now), *self._due_samples().values())
            timer = min((moment for moment in timers if moment is not None), default=end)
            if timer >= end:
                self.now = end
                return
            self.now = max(self.now, timer)
