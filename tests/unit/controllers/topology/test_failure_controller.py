"""One host and several Workloads on it: what becomes of the others where one cannot be judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.controllers.topology.failure_controller import NodeFailureController
from multiqueue.kube.errors import Invalid
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import T0, with_status
from tests.unit.controllers.topology.builders import make_assignment, placed

HOST = "n1"


class FailureFixture:
    """A store of Workloads on a host that is gone; nothing can be written of ``refused``."""

    def __init__(self, *workloads: Workload, refused: str = "") -> None:
        self.workloads = {workload.metadata.key: workload for workload in workloads}
        self.refused = refused
        empty = SimpleNamespace(by_index=lambda *_: (), get=lambda _: None)
        context: Any = SimpleNamespace(
            informers=SimpleNamespace(
                workloads=SimpleNamespace(store=self.workloads),
                resource_flavors=SimpleNamespace(store=SimpleNamespace(get=lambda _: self)),
            ),
            writer=self,
            clock=SimpleNamespace(now=lambda: T0),
            config=Configuration(),
            metrics=ManagerMetrics(),
        )
        watch: Any = SimpleNamespace(
            pods=SimpleNamespace(store=empty), nodes=SimpleNamespace(store=empty)
        )
        self.controller = NodeFailureController(context, watch)
        for key in self.workloads:
            self.controller.placements.set(key, frozenset({HOST}))

    spec = SimpleNamespace(node_labels={}, tolerations=(), topology_name="")

    async def update_status(self, key: str, change: Any) -> Workload:
        if key.endswith(self.refused or "/"):
            raise Invalid(422)
        self.workloads[key] = with_status(self.workloads[key], change(self.workloads[key]))
        return self.workloads[key]

    def failed(self, name: str) -> list[str]:
        nodes = self.workloads[f"team-a/{name}"].status.unhealthy_nodes
        return [node.name for node in nodes]


def on_host(name: str) -> Workload:
    return placed(make_assignment((HOST, 1)), name=name)


async def test_a_write_that_is_refused_keeps_nobody_else_from_hearing_of_the_failure() -> None:
    shell = FailureFixture(on_host("a"), on_host("b"), refused="/a")
    with pytest.raises(Invalid):
        await shell.controller.reconcile(HOST)
    assert shell.failed("b") == [HOST]


async def test_a_status_that_cannot_be_read_keeps_nobody_else_from_hearing_of_the_failure() -> None:
    broken = on_host("a")
    admission = broken.status.admission
    assert admission is not None
    wire = {"levels": ["x"], "slices": [{"domainCount": 2, "podCounts": {"individual": [1]}}]}
    pods = msgspec.structs.replace(admission.pod_set_assignments[0], topology_assignment=wire)
    admission = msgspec.structs.replace(admission, pod_set_assignments=(pods,))
    broken = with_status(broken, msgspec.structs.replace(broken.status, admission=admission))
    shell = FailureFixture(broken, on_host("b"))
    with pytest.raises(ValueError, match="podCounts"):
        await shell.controller.reconcile(HOST)
    assert shell.failed("b") == [HOST]
