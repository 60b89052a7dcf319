"""The demo's jobs of other kinds: one example of each, from submission to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import WORKLOADS, resource_of
from multiqueue.runtime.components import open_scope
from multiqueue.runtime.demo.objects import TEAMS

Json = dict[str, Any]
ALL = "all"
TIMEOUT_SECONDS = 60.0
RUN_FOR = "2"
"""Simulated seconds that the pods of an example run."""
_ROWS = {row.framework: row for row in JOB_KINDS if row.framework}


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
    """Return the kinds of a list such as ``jobset,rayjob``, or all that are simulated.

    Raises:
        ValueError: a kind is unknown; the message has those that are known.
    """
    known = {_ROWS[each.framework].kind.lower(): each for each in SIMULATED_KINDS}
    if text == ALL:
        return tuple(known.values())
    asked = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in asked:
        if name not in known:
            raise ValueError(f'"{name}" is unknown; choose of all, {", ".join(sorted(known))}')
    return tuple(known[name] for name in asked)


def list_crds(kinds: Sequence[SimulatedKind]) -> list[Json]:
    """Return the CRDs that these kinds need, once each."""
    crds = [crd for each in kinds for crd in build_kind_crds(_ROWS[each.framework])]
    return list({crd["metadata"]["name"]: crd for crd in crds}.values())


def list_objects(kinds: Sequence[SimulatedKind]) -> list[Json]:
    """Return the objects that the examples of these kinds refer to."""
    return [obj for each in kinds for obj in each.objects()]


def build_integrations(kinds: Sequence[SimulatedKind]) -> Json:
    """Return the part of a manager's configuration that enables these kinds."""
    rows = [_ROWS[each.framework] for each in kinds]
    return {
        "integrations": {"frameworks": ["batch/job", *(row.framework for row in rows)]},
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
    for pods in read_pod_sets(job):
        template = job
        for step in filter(None, pods.path.replace("]", "").replace("[", ".").split(".")):
            template = template[int(step)] if isinstance(template, list) else template[step]
        annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
        annotations[RUN_SECONDS] = RUN_FOR if each.ends else "forever"
    return job


async def run_kinds(client: KubeClient, kinds: Sequence[SimulatedKind]) -> list[KindOutcome]:
    """Submit an example of each kind to the manager, and return what became of them.

    Args:
        client: The client of the manager's cluster.
        kinds: The kinds.
    """
    trials = [_KindTrial(client, each, TEAMS[n % len(TEAMS)].name) for n, each in enumerate(kinds)]
    changed = asyncio.Event()
    workloads = Informer(client, WORKLOADS, decode=lambda data: decode(Workload, data))
    workloads.add_handler(lambda _old, _new: changed.set())
    async with open_scope() as scope:
        scope.create_task(workloads.run())
        for trial in trials:
            trial.jobs.add_handler(lambda _old, _new: changed.set())
            scope.create_task(trial.jobs.run())
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

    def __init__(self, client: KubeClient, each: SimulatedKind, team: str) -> None:
        self._client, self._each = client, each
        self._row = _ROWS[each.framework]
        self._resource = resource_of(self._row.api_version, self._row.plural, self._row.kind)
        self._job = build_example(each, self._row, team)
        self._refusal = ""
        self._worker, self._state = "", "Submitted"
        self.jobs: Informer[Json] = Informer(client, self._resource, namespace=team)

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
        job = self.jobs.store.get(f"{namespace}/{self.name}")
        if not mine or job is None:
            return False
        self._worker = next((w.status.cluster_name for w in mine if w.status.cluster_name), "")
        seen = {**job, "apiVersion": self._row.api_version, "kind": self._row.kind}
        if all(is_finished(w.status) for w in mine) and is_over(seen):
            self._state = "Succeeded"
            return True
        if all(is_admitted(w.status) for w in mine):
            self._state = "Running" if is_ready(seen) else "Admitted"
        return not self._each.ends and self._state == "Running"

    def _owns(self, workload: Workload) -> bool:
        owners = workload.metadata.owner_references
        return any((owner.kind, owner.name) == (self._row.kind, self.name) for owner in owners)

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
