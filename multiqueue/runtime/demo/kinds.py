"""The demo's jobs of other kinds: one example of each, from submission to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.api import names
from multiqueue.api.job_kinds import JOB_KINDS, KnownKind
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_admitted, is_finished
from multiqueue.embedded.cluster.kind_crds import build_kind_crds
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.embedded.cluster.simulated_kinds import SIMULATED_KINDS, SimulatedKind
from multiqueue.jobs.reading import is_over, is_ready, read_pod_sets
from multiqueue.jobs.setup import load_kind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import WORKLOADS, resource_of
from multiqueue.runtime.components import open_scope
from multiqueue.runtime.demo.objects import TEAMS

Json = dict[str, Any]
ALL = "all"
TIMEOUT_SECONDS = 60.0
_ALWAYS = {"batch/job", ""}
"""What every manager of the demo queues; Jobs of CronJobs are Jobs."""
RUN_FOR = "2"
"""Simulated seconds that the pods of an example run."""
_ROWS = {row.framework: row for row in JOB_KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOutcome:
    """What became of the example of one kind; ``problem`` says what it lacks, if anything."""

    kind: str
    name: str
    worker: str
    state: str
    problem: str

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome in its documented form."""
        return {
            "kind": self.kind,
            "name": self.name,
            "worker": self.worker or None,
            "state": self.state,
            "reason": self.problem,
        }


def choose_kinds(text: str) -> tuple[SimulatedKind, ...]:
    """Return the kinds of a list such as ``jobset,rayjob``, or all that can run on workers.

    Raises:
        ValueError: a kind is unknown; the message has those that are known.
    """
    rows = ((_ROWS[each.framework], each) for each in SIMULATED_KINDS)
    known = {row.kind.lower(): each for row, each in rows if _runs_on_workers(row)}
    if text == ALL:
        return tuple(known.values())
    asked = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in asked:
        if name not in known:
            raise ValueError(f'"{name}" is unknown; choose of all, {", ".join(sorted(known))}')
    return tuple(known[name] for name in asked)


def _runs_on_workers(row: KnownKind) -> bool:
    """Whether objects of a kind are copied to workers, or the Jobs or pods that they make."""
    return bool(row.template) or row.implies_pods or load_kind(row).adapter is not None


def list_crds(kinds: Sequence[SimulatedKind]) -> list[Json]:
    """Return the CRDs that these kinds need, once each."""
    rows = [_ROWS[each.framework] for each in kinds if each.framework]
    crds = [crd for row in rows for crd in build_kind_crds(row)]
    return list({crd["metadata"]["name"]: crd for crd in crds}.values())


def list_objects(kinds: Sequence[SimulatedKind]) -> list[Json]:
    """Return the objects that the examples of these kinds refer to."""
    return [obj for each in kinds for obj in each.objects()]


def build_integrations(kinds: Sequence[SimulatedKind]) -> Json:
    """Return the part of a manager's configuration that enables these kinds."""
    rows = [_ROWS[each.framework] for each in kinds]
    return {
        "integrations": {
            "frameworks": ["batch/job", *sorted({row.framework for row in rows} - _ALWAYS)]
        },
        "featureGates": {row.gate: True for row in rows if row.gate},
        "managedJobsNamespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-system", names.DEFAULT_NAMESPACE],
                }
            ]
        },
    }


def build_example(each: SimulatedKind, row: KnownKind, team: str) -> Json:
    """Return the manifest of an example whose pods run for a short while."""
    job: Json = {
        "apiVersion": row.api_version,
        "kind": row.kind,
        "metadata": {
            "name": f"my-{row.kind.lower()}",
            "namespace": team,
            "labels": {names.QUEUE_NAME: team},
        },
        "spec": each.spec(),
    }
    paths = [pods.path for pods in read_pod_sets(job)] if not each.template else []
    for path in (*paths, *([".".join(each.template)] if each.template else ())):
        template = job
        for step in filter(None, path.replace("]", "").replace("[", ".").split(".")):
            if isinstance(template, list):
                template = template[int(step)]
            else:
                template = template.setdefault(step, {})
        annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
        annotations[RUN_SECONDS] = RUN_FOR if each.ends else "forever"
    if row.template:
        made = job["spec"][row.template.rpartition(".")[2]]
        made["metadata"] = {"labels": job["metadata"].pop("labels")}
    return job


async def run_kinds(
    clients: Mapping[str, KubeClient], manager: str, kinds: Sequence[SimulatedKind]
) -> list[KindOutcome]:
    """Submit an example of each kind to the manager, and return what became of them.

    Args:
        clients: The client of each cluster.
        manager: The name of the manager's cluster.
        kinds: The kinds.
    """
    client = clients[manager]
    workers = {name: each for name, each in clients.items() if name != manager}
    trials = [
        _KindTrial(client, workers, each, TEAMS[n % len(TEAMS)].name)
        for n, each in enumerate(kinds)
    ]
    changed = asyncio.Event()
    workloads = Informer(client, WORKLOADS, decode=lambda data: decode(Workload, data))
    workloads.add_handler(lambda _old, _new: changed.set())
    async with open_scope() as scope:
        scope.create_task(workloads.run())
        for trial in trials:
            for informer in trial.informers:
                informer.add_handler(lambda _old, _new: changed.set())
                scope.create_task(informer.run())
        await asyncio.gather(*(trial.submit() for trial in trials))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not all(trial.observe(workloads.store.list()) for trial in trials):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            pass  # the outcomes show which job did not end
    return [trial.outcome for trial in trials]


class _KindTrial:
    """The example of one kind."""

    def __init__(
        self,
        client: KubeClient,
        workers: Mapping[str, KubeClient],
        each: SimulatedKind,
        team: str,
    ) -> None:
        self._client, self._each = client, each
        self._row = _ROWS[each.framework]
        self._resource = resource_of(self._row.api_version, self._row.plural, self._row.kind)
        self._job = build_example(each, self._row, team)
        self._refusal = ""
        self._worker, self._state = "", "Submitted"
        self._jobs: Informer[Json] = Informer(client, self._resource, namespace=team)
        # The object of a set on the manager never shows ready pods: its pods there stay gated.
        self._copies: Mapping[str, Informer[Json]] = {
            worker: Informer(each, self._resource, namespace=team)
            for worker, each in (workers.items() if self._row.groups_pods else ())
        }
        self.informers = (self._jobs, *self._copies.values())

    @property
    def name(self) -> str:
        return str(self._job["metadata"]["name"])

    async def submit(self) -> None:
        try:
            namespace = self._job["metadata"]["namespace"]
            await self._client.create(self._resource, self._job, namespace=namespace)
        except ApiError as error:
            self._refusal, self._state = error.server_message or str(error), "Refused"

    def observe(self, workloads: Sequence[Workload]) -> bool:
        """Note what the manager knows; return whether the job has come as far as it can."""
        if self._refusal:
            return True
        mine = [workload for workload in workloads if self._owns(workload)]
        namespace = self._job["metadata"]["namespace"]
        job = self._jobs.store.get(f"{namespace}/{self.name}")
        if not mine or job is None:
            return False
        self._worker = next((w.status.cluster_name for w in mine if w.status.cluster_name), "")
        copies = [copy for each in self._copies.values() for copy in each.store.list()]
        about = {"apiVersion": self._row.api_version, "kind": self._row.kind}
        seen = [{**each, **about} for each in (copies if self._row.groups_pods else (job,))]
        # A CronJob does not end itself.
        is_done = bool(self._row.template) or all(map(is_over, seen))
        if all(is_finished(w.status) for w in mine) and is_done:
            self._state = "Succeeded"
            return True
        if all(is_admitted(w.status) for w in mine):
            self._state = "Running" if seen and all(map(is_ready, seen)) else "Admitted"
        return not self._each.ends and self._state == "Running"

    def _owns(self, workload: Workload) -> bool:
        namespace = self._job["metadata"]["namespace"]
        made = f"{self.name}-" if self._each.children is not None else "/"
        return workload.metadata.namespace == namespace and any(
            (owner.kind, owner.name) == (self._row.kind, self.name) or owner.name.startswith(made)
            for owner in workload.metadata.owner_references
        )

    @property
    def outcome(self) -> KindOutcome:
        wanted = "Succeeded" if self._each.ends else "Running"
        problem = self._refusal
        if not problem and self._state != wanted:
            problem = f"is {self._state} instead of {wanted}"
        elif not problem and not self._worker:
            problem = "did not run on a worker"
        return KindOutcome(
            kind=self._row.kind,
            name=self.name,
            worker=self._worker,
            state=self._state,
            problem=problem,
        )
