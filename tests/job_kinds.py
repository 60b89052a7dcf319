"""Examples of every job kind for tests, and a cluster that serves them.

`EXAMPLES` has one entry for each kind that is simulated: a kind that gets a row in
`multiqueue.embedded.cluster.simulated_kinds` is tested by all that is parametrized over them.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.config import Configuration, Integrations
from multiqueue.api.job_kinds import JOB_KINDS, KnownKind
from multiqueue.embedded.cluster.kind_crds import build_kind_crds
from multiqueue.embedded.cluster.simulated_kinds import SIMULATED_KINDS, JobPhase, SimulatedKind
from multiqueue.jobs.framework.related import add_related, list_related
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.setup import load_kind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import Resource, resource_of
from tests.builders.workloads import NAMESPACE
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster

ROWS = {row.framework: row for row in JOB_KINDS if row.framework}


@dataclass(frozen=True, slots=True)
class KindExample:
    """One kind with an example of it."""

    row: KnownKind
    kind: SupportedKind
    simulated: SimulatedKind

    @property
    def resource(self) -> Resource:
        return resource_of(self.row.api_version, self.row.plural, self.row.kind)

    def make(self, name: str = "job", *, queue: str | None = "lq", **spec: Any) -> dict[str, Any]:
        """An object as a user writes it."""
        return {
            "apiVersion": self.row.api_version,
            "kind": self.row.kind,
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {names.QUEUE_NAME: queue} if queue else {},
            },
            "spec": {**self.simulated.spec(), **spec},
        }

    @property
    def crds(self) -> list[dict[str, Any]]:
        """The CRDs that a cluster needs for the kind."""
        return build_kind_crds(self.row)

    def read(self, job: dict[str, Any]) -> dict[str, Any]:
        """A job as it is observed: with the objects that its kind reads."""
        known = {(obj["kind"], obj["metadata"]["name"]): obj for obj in self.simulated.objects()}
        return add_related(
            self.kind.integration, job, lambda resource, _, name: known.get((resource.kind, name))
        )

    async def create_objects(
        self, client: KubeClient, change: Callable[[Any], Any] = lambda obj: obj
    ) -> None:
        """Create the objects that the example refers to, changed as a test needs them."""
        related = {each.kind: each for each in list_related(self.kind.integration)}
        for obj in self.simulated.objects():
            await client.create(related[obj["kind"]], change(obj))

    async def set_phase(self, cluster: QueueCluster, name: str, phase: JobPhase) -> None:
        """Write the status that the kind's own controller would write."""
        job = await cluster.client.get(self.resource, name, namespace=NAMESPACE)
        status = self.simulated.status(job["spec"], phase)
        await cluster.patch(
            self.resource, name, {"status": status}, namespace=NAMESPACE, subresource="status"
        )


EXAMPLES = tuple(
    KindExample(ROWS[each.framework], load_kind(ROWS[each.framework]), each)
    for each in SIMULATED_KINDS
    if each.framework in ROWS
)


def config_for(*examples: KindExample, **more: Any) -> Configuration:
    """The tests' Configuration with these kinds enabled."""
    frameworks = tuple(each.row.framework for each in examples)
    gates = {each.row.gate: True for each in examples if each.row.gate}
    integrations = Integrations(frameworks=("batch/job", *frameworks))
    return msgspec.structs.replace(
        CONFIG, integrations=integrations, feature_gates={**gates, **more}
    )


@contextlib.asynccontextmanager
async def kind_cluster(*examples: KindExample) -> AsyncIterator[QueueCluster]:
    """A cluster that serves these kinds."""
    crds = [crd for each in examples for crd in each.crds]
    async with queue_cluster(crds=crds, config=config_for(*examples)) as cluster:
        for each in examples:
            await each.create_objects(cluster.client)
        yield cluster
