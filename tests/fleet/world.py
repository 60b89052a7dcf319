"""The clusters, programs and players of one run, and what the outside can do to them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextvars import Context
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import orjson

from multiqueue.api import names
from multiqueue.embedded.server.certificates import create_authority
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_flavor, make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.fleet.api_server import ApiServer
from tests.fleet.history import Change, History
from tests.fleet.job_controller import FAILS, SECONDS, STOP, JobController
from tests.fleet.kinds import JOB, list_referenced, make_job, plural_of
from tests.fleet.network import Network
from tests.fleet.objects import Json
from tests.fleet.plan import JobPlan, Plan
from tests.fleet.played_kueue import PlayedKueue
from tests.fleet.program import LeadershipLostError, Program
from tests.fleet.settings import manager_config, worker_config
from tests.fleet.trainers import POLICY, SAVES, Trainers, make_saving_policy
from tests.fleet.truth import Truth
from tests.fleet.weather import LATE, Process
from tests.multikueue_world import CHECK

T0 = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = base64.b64encode(create_authority(T0).certificate).decode()
"""Nobody is asked to show a certificate; it is quicker to load than those of the system."""
HUB = "hub"
SYSTEM = "kueue-system"
FAST = "h100"
"""The hardware of workers on which half of the pods do."""
PRIORITIES = {"low": 10, "high": 1000}
HUB_SECONDS = 35.0
"""How long a manager may take to hear of what it missed: the longest pause between two lists."""
RESTART_SECONDS = 3.0
"""How long whoever restarts a manager that ended by itself takes."""
PodsListener = Callable[[str, Json, bool], None]


class FleetWorld:
    """Everything of one run.

    Args:
        plan: What it is made of.
        history: Gets what happens.
        begun: Loop time at which the run began.
    """

    def __init__(self, plan: Plan, history: History, begun: float) -> None:
        self.plan = plan
        self.history = history
        self.chance = Random(plan.seed * 7919 + 1)
        self.network = Network(Random(plan.seed * 7919 + 2), history)
        self.pods_listeners: list[PodsListener] = []
        self.tokens: dict[str, str] = {}
        self.leads_to: dict[str, str] = {}
        """The clusters that kubeconfigs lead to, by the worker that they are of."""
        self.configured: dict[str, None] = dict.fromkeys(plan.workers)
        self.troubled: dict[str, int] = {}
        """Workers by the number of things that are wrong with them on purpose."""
        self._begun = begun
        self._hub_bad_at = 0.0
        self.truth = Truth(self.clock, list(plan.workers), self.is_recorded, plan.kinds)
        self.hub = self._server(HUB)
        self.workers = {name: self._server(name) for name in plan.workers}
        self.job_controllers = {name: self._job_controller(name) for name in plan.workers}
        self.trainers = {name: self._trainers(name) for name in plan.workers if plan.saving}
        self.players = {name: self._player(name) for name in plan.workers if name in plan.played}
        self.controllers = {
            name: Program(
                self.network, name, name, worker_config(plan), self.now_of(name), multikueue=False
            )
            for name in plan.workers
            if name not in plan.played
        }
        self.managers = [self._manager(f"manager-{letter}") for letter in "ab"[: plan.managers]]
        self._tasks: set[asyncio.Task[None]] = set()
        history.listen(self._on_change)

    # ------------------------------------------------------------ time

    def clock(self) -> float:
        """Seconds since the run began."""
        return asyncio.get_running_loop().time() - self._begun

    def now_of(self, name: str) -> Callable[[], datetime]:
        """Return the clock of a cluster, or of a manager: it may be wrong."""
        start = T0 + timedelta(seconds=self.plan.skews.get(name, 0.0))
        return lambda: start + timedelta(seconds=self.clock())

    # ------------------------------------------------------------ assembly

    def _server(self, name: str) -> ApiServer:
        server = ApiServer(
            name,
            now=self.now_of(name),
            history=self.history,
            call_later=asyncio.get_running_loop().call_later,
            page_size=self.plan.page_size,
        )
        self.network.servers[name] = server
        return server

    def _job_controller(self, name: str) -> JobController:
        def on_pods(cluster: str, job: Json, begin: bool) -> None:
            words = "begin" if begin else "end"
            self.history.note(
                "pods", lambda: f"{cluster}: pods of {job['metadata']['name']} {words}"
            )
            for listener in self.pods_listeners:
                listener(cluster, job, begin)

        return JobController(
            self.workers[name],
            now=self.now_of(name),
            history=self.history,
            chance=Random(f"{self.plan.seed} jobs {name}"),
            on_pods=on_pods,
            on_served=self._delete_job,
        )

    def _trainers(self, name: str) -> Trainers:
        return Trainers(
            self.workers[name],
            now=self.now_of(name),
            history=self.history,
            chance=Random(f"{self.plan.seed} trainers {name}"),
        )

    def _player(self, name: str) -> PlayedKueue:
        return PlayedKueue(
            self.workers[name],
            now=self.now_of(name),
            history=self.history,
            chance=Random(f"{self.plan.seed} kueue {name}"),
            plurals=self.job_plurals,
        )

    def _manager(self, group: str) -> Program:
        return Program(
            self.network,
            group,
            HUB,
            manager_config(self.plan),
            self.now_of(group),
            multikueue=True,
            election=self.plan.managers > 1,
            on_fleet=lambda fleet: self.truth.follow(group, fleet),
        )

    def build(self) -> None:
        """Create what an admin creates, and start everything."""
        for name, server in (("hub", self.hub), *self.workers.items()):
            for namespace in ("kube-system", SYSTEM, NAMESPACE):
                server.add("namespaces", _cluster_object("v1", "Namespace", namespace))
            gpus = self.plan.hub_gpus if name == HUB else self.plan.workers[name]
            self.make_queues(name, gpus)
            for obj in (obj for kind in sorted(self.plan.kinds) for obj in list_referenced(kind)):
                server.add(f"{obj['kind'].lower()}s", obj)
        if self.plan.saving:
            self.hub.add("disruptionpolicies", make_saving_policy())
        for priority, value in PRIORITIES.items():
            body = _cluster_object(names.V1BETA2, "WorkloadPriorityClass", priority)
            self.hub.add("workloadpriorityclasses", {**body, "value": value})
        for name in self.plan.workers:
            self.put_secret(name, f"token-{name}-1")
            self.add_cluster(name)
        self.make_check()
        for program in (*self.controllers.values(), *self.managers):
            program.start()

    def make_queues(self, name: str, gpus: int) -> None:
        """Create flavor and queues of a cluster, as far as they are missing."""
        server = self.network.servers[name]
        queue = make_gpu_queue(gpus, checks=(CHECK,) if name == HUB else ())
        queue["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
        if name == HUB and self.plan.saving:
            queue["metadata"]["annotations"] = {names.DISRUPTION_POLICY: POLICY}
        labels = {"accelerator": FAST} if name in self.plan.fast else {}
        for plural, obj in (
            ("resourceflavors", make_gpu_flavor("gpu", **labels)),
            ("clusterqueues", queue),
            ("localqueues", make_local_queue()),
        ):
            metadata = obj["metadata"]
            namespace = metadata.get("namespace", "")
            key = "/".join(filter(None, (namespace, metadata["name"])))
            has_place = not namespace or server.find("namespaces", namespace) is not None
            if has_place and server.find(plural, key) is None:
                server.add(plural, obj)

    async def close(self) -> None:
        """End everything."""
        for task in list(self._tasks):
            task.cancel()
        for program in (*self.managers, *self.controllers.values()):
            await program.stop(kill=True)

    # ------------------------------------------------------------ configuration

    def make_check(self) -> None:
        """Create the AdmissionCheck and its MultiKueueConfig, as far as they are missing."""
        self.set_clusters()
        if self.hub.find("admissionchecks", CHECK) is None:
            check = _cluster_object(names.V1BETA2, "AdmissionCheck", CHECK)
            reference = {"apiGroup": names.GROUP, "kind": "MultiKueueConfig", "name": "fleet"}
            spec = {"controllerName": names.MULTIKUEUE_CONTROLLER, "parameters": reference}
            self.hub.add("admissionchecks", {**check, "spec": spec})

    def put_secret(self, name: str, token: str, *, valid: bool = True, host: str = "") -> None:
        """Write the kubeconfig of a worker, with a token that it takes, or not.

        A host other than the worker is another cluster's.
        """
        server = self.workers[name]
        self.leads_to[name] = host or name
        if valid and not host:
            server.tokens.add(token)
            self.tokens[name] = token
        text = base64.b64encode(orjson.dumps(_kubeconfig(host or name, token))).decode()
        data = {"kubeconfig": text}
        if self.hub.edit("secrets", f"{SYSTEM}/{name}", {"data": data}) is None:
            body = _cluster_object("v1", "Secret", name)
            body["metadata"]["namespace"] = SYSTEM
            self.hub.add("secrets", {**body, "data": data})

    def add_cluster(self, name: str) -> None:
        """Create a MultiKueueCluster."""
        if self.hub.find("multikueueclusters", name) is None:
            body = _cluster_object(names.V1BETA2, "MultiKueueCluster", name)
            spec = {"clusterSource": {"kubeConfig": {"location": name}}}
            self.hub.add("multikueueclusters", {**body, "spec": spec})

    def set_clusters(self) -> None:
        """Have the MultiKueueConfig list the clusters that are configured."""
        order = self.plan.order or tuple(self.plan.workers)
        clusters = [name for name in order if name in self.configured]
        spec = {"clusters": clusters}
        if self.hub.edit("multikueueconfigs", "fleet", {"spec": spec}) is None:
            body = _cluster_object(names.V1BETA2, "MultiKueueConfig", "fleet")
            self.hub.add("multikueueconfigs", {**body, "spec": spec})

    def submit(self, job: JobPlan) -> None:
        """Create a job as its user does."""
        body = make_job(job.kind, job.name, gpus=job.gpus)
        annotations = {SECONDS: str(job.seconds), STOP: str(job.stop)}
        if job.halves:
            sizes = {"parallelism": job.gpus, "completions": job.gpus, "completionMode": "Indexed"}
            body = make_gpu_job(job.name, **sizes)
            annotations[names.ALTERNATIVES] = f"{FAST}={job.gpus // 2}"
            annotations[names.JOB_COMPLETIONS_EQUAL_PARALLELISM] = "true"
        if job.elastic:
            body = make_gpu_job(job.name, parallelism=job.gpus, completions=100)
            body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": names.ELASTIC_GATE}]
            annotations[names.ELASTIC_JOB] = "true"
        if job.saves:
            saving = {names.CHECKPOINT_ON: "Notice", names.CHECKPOINT_SECONDS: "10"}
            annotations |= {SAVES: job.saves, **saving}
        if job.declares:
            annotations[names.RUNTIME] = f"{job.seconds:.0f}s"
        body["metadata"]["labels"][names.PRIORITY_CLASS] = job.priority
        body["metadata"]["annotations"] = annotations
        if job.fails:
            body["metadata"]["annotations"][FAILS] = "true"
        self.history.note("submit", job.name)
        self.hub.add(plural_of(job.kind), body)

    def _delete_job(self, job: Json) -> None:
        """Delete a job that ran long enough and does not end by itself, as its user does."""
        plural, key = plural_of(job["kind"]), f"{NAMESPACE}/{job['metadata']['name']}"
        if self.hub.find(plural, key) is not None:
            self.history.note("served", key)
            self.hub.mark_deleted(plural, key)

    # ------------------------------------------------------------ looking

    @property
    def job_plurals(self) -> tuple[str, ...]:
        """The collections of jobs in this run."""
        return tuple(plural_of(kind) for kind in sorted(self.plan.kinds))

    def kind_of(self, job: str) -> str:
        """Return the kind of a job of the plan."""
        return next((plan.kind for plan in self.plan.jobs if plan.name == job), JOB)

    def plural_of(self, job: str) -> str:
        """Return the collection of a job of the plan."""
        return plural_of(self.kind_of(job))

    def list_jobs(self, cluster: str) -> list[Json]:
        """Return all jobs on a cluster."""
        server = self.network.servers[cluster]
        return [job for plural in self.job_plurals for job in server.list_all(plural)]

    def workload_of(self, job: str) -> Json | None:
        """Return the Workload of a job on the manager's cluster."""
        for workload in self.hub.list_all("workloads"):
            for owner in workload["metadata"].get("ownerReferences") or ():
                if owner["name"] == job:
                    return workload
        return None

    def is_recorded(self, worker: str) -> bool:
        """Whether the manager's API says that a worker is connected."""
        cluster = self.hub.find("multikueueclusters", worker) or {}
        conditions = (cluster.get("status") or {}).get("conditions") or ()
        return any(c["type"] == "Active" and c["status"] == "True" for c in conditions)

    @property
    def leader(self) -> Program | None:
        """The manager that leads."""
        leading = (each for each in self.managers if each.is_leading and not each.is_paused)
        return next(leading, None)

    @property
    def is_hub_heard(self) -> bool:
        """Whether the managers have heard of all that happened on their own cluster."""
        return self.clock() - self._hub_bad_at >= HUB_SECONDS

    def is_calm(self, worker: str) -> bool:
        """Whether nothing keeps the managers from a worker now."""
        return (
            not self.troubled.get(worker)
            and self.is_hub_heard
            and not self.network.is_silent(worker)
            and not self.network.is_silent(HUB)
            and all(
                self.network.weather(manager.group, worker).is_calm for manager in self.managers
            )
        )

    def look_around(self) -> None:
        """Bring the truth up to date."""
        weathers = [self.network.weather(manager.group, HUB) for manager in self.managers]
        if self.leader is None or not all(weather.is_calm for weather in weathers):
            self._hub_bad_at = self.clock()
        for worker in self.workers:
            self.truth.set_calm(worker, calm=self.is_calm(worker))

    def trouble(self, worker: str, by: int) -> None:
        """Count what is wrong with a worker, beside the weather."""
        self.troubled[worker] = self.troubled.get(worker, 0) + by
        self.look_around()

    # ------------------------------------------------------------ managers that end

    async def end_manager(self, index: int, *, kill: bool, back: float) -> None:
        """End a manager; somebody starts it again some seconds later."""
        manager = self.managers[index]
        if not manager.is_running:
            return
        self.truth.forget(manager.group)
        await manager.stop(kill=kill)
        self.look_around()
        self.spawn(self._start_later(manager, back))

    async def pause_manager(self, index: int, seconds: float) -> None:
        """Stop a manager for a while, as SIGSTOP does: it does not know when it goes on."""
        manager = self.managers[index]
        process = manager.process
        if process is None or manager.is_paused:
            return
        manager.pause()
        fleet = self.truth.forget(manager.group)
        self.history.note("stopped", process.name)
        self.look_around()
        await asyncio.sleep(seconds)
        if manager.process is process and manager.is_paused:
            if fleet is not None:
                self.truth.remember(manager.group, fleet)
            self.history.note("continued", process.name)
            manager.resume()

    def pause_at_write(self, index: int, number: int, seconds: float, of: str) -> None:
        """Stop a manager for a while just after one of its next writes to such a target."""
        process = self.managers[index].process

        def stop(process: Process, target: str) -> None:
            process.on_write = None
            self.history.note("stopping", lambda: f"{process.name} at a write of {target}")
            self.spawn(self.pause_manager(index, seconds))

        if process is not None:
            at_write(process, number, of, stop, after=True)

    def kill_at_write(
        self,
        index: int,
        number: int,
        *,
        after: bool,
        back: float,
        on_killed: Callable[[], None],
        of: str = "",
    ) -> None:
        """Kill a manager at one of its next writes: just before or just after its effect.

        Args:
            index: Which manager.
            number: Which of its next writes.
            after: Whether the write takes effect.
            back: Seconds until it is started again.
            on_killed: Called once it is killed.
            of: Part of the target of the writes that count.
        """
        manager = self.managers[index]
        process = manager.process
        if process is None:
            on_killed()
            return

        def kill(process: Process, target: str) -> None:
            if process.alive:
                process.alive = False
                self.history.note("killed", lambda: f"{process.name} at a write of {target}")
                self.spawn(self.end_manager(index, kill=True, back=back))
                on_killed()

        at_write(process, number, of, kill, after=after)

    async def tend(self) -> None:
        """Restart managers that ended by themselves, as a Deployment does; look around."""
        while True:
            await asyncio.sleep(1.0)
            for manager in self.managers:
                if manager.has_ended:
                    if not is_leadership_lost(manager.failure):
                        raise AssertionError(f"{manager.group} failed") from manager.failure
                    self.history.note("lost lease", manager.group)
                    self.truth.forget(manager.group)
                    await manager.stop(kill=True)
                    self.spawn(self._start_later(manager, RESTART_SECONDS))
            for program in self.controllers.values():
                if program.has_ended:
                    raise AssertionError(f"{program.group} failed") from program.failure
            self.look_around()

    def spawn(self, coroutine: Any) -> None:
        """Do something beside everything else."""
        # Not of the process that it may be about.
        task = asyncio.get_running_loop().create_task(coroutine, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start_later(self, manager: Program, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not manager.is_running:
            self.history.note("start", manager.group)
            manager.start()

    def _on_change(self, change: Change) -> None:
        """Note what somebody else did to what runs."""
        if change.cluster == HUB or change.verb not in {"remove", "delete", "restore"}:
            return
        if change.actor.startswith("manager-") and not change.actor.endswith(LATE):
            return
        key = workload_key(change.plural, change.old or change.new or {})
        self.truth.strike(change.cluster, key)
        if change.verb == "restore":
            self.truth.restored.add((change.cluster, key))


def at_write(
    process: Process, number: int, of: str, act: Callable[[Process, str], None], *, after: bool
) -> None:
    """Act at one of the next writes of a process to such a target: before or after its effect."""
    count = 0

    def on_write(process: Process, target: str, done: bool) -> None:
        nonlocal count
        if of not in target:
            return
        count += not done
        if count >= number and done is after:
            act(process, target)

    process.on_write = on_write


def workload_key(plural: str, obj: Json) -> str:
    """Return the key of the Workload that a remote object belongs to."""
    metadata = obj.get("metadata") or {}
    namespace = metadata.get("namespace", "")
    if plural == "workloads":
        return f"{namespace}/{metadata['name']}"
    name = (metadata.get("annotations") or {}).get(names.PREBUILT_WORKLOAD_NAME, "")
    return f"{namespace}/{name}"


def is_leadership_lost(error: BaseException | None) -> bool:
    """Whether a process ended for want of its Lease alone."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_leadership_lost(part) for part in error.exceptions)
    return isinstance(error, LeadershipLostError)


def _cluster_object(api_version: str, kind: str, name: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def _kubeconfig(name: str, token: str) -> Json:
    cluster = {"server": f"https://{name}.sim", "certificate-authority-data": AUTHORITY}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
