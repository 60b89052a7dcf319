"""A small driver of an engine, for unit, property, replay and bench tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from multiqueue.engine.engine import Engine
from multiqueue.engine.flavors.oracle import Oracle
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    ClusterQueue,
    LocalQueue,
)
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    reserved,
    seconds,
    with_changes,
)


class EngineWorld:
    """An engine with a namespace, flavors and LocalQueues that a test does not care about."""

    def __init__(
        self,
        *queues: ClusterQueue,
        flavors: Sequence[ResourceFlavor] = (),
        options: EngineOptions | None = None,
        oracle: Oracle | None = None,
        local_queues: Mapping[str, str] | None = None,
    ) -> None:
        self.engine = Engine(options or EngineOptions(), oracle=oracle)
        self.now = T0
        self.workloads: dict[str, Workload] = {}
        self.engine.upsert_namespace(NAMESPACE, {})
        known = {flavor.name: flavor for flavor in flavors}
        for queue in queues:
            for resource_group in queue.resource_groups:
                for quotas in resource_group.flavors:
                    known.setdefault(quotas.name, ResourceFlavor(name=quotas.name))
        for flavor in known.values():
            self.engine.upsert_resource_flavor(flavor)
        for queue in queues:
            self.engine.upsert_cluster_queue(queue)
        names = local_queues
        if names is None:
            names = {"lq": queues[0].name} if len(queues) == 1 else {q.name: q.name for q in queues}
        for name, cluster_queue in names.items():
            self.engine.upsert_local_queue(
                LocalQueue(key=f"{NAMESPACE}/{name}", cluster_queue=cluster_queue)
            )

        for before in (10, 5):  # deliver the wake that the set-up itself asked for
            self.engine.run_cycle(T0 - seconds(before))

    def add_check(self, name: str, *, active: bool = True) -> None:
        self.engine.upsert_admission_check(AdmissionCheckInfo(name=name, active=active))

    def submit(self, *workloads: Workload) -> None:
        for workload in workloads:
            self.workloads[workload.key] = workload
            self.engine.upsert_workload(workload, self.now)

    def cycle(self, *, after: float = 0) -> CyclePlan:
        """Run the engine until it is quiet, some seconds later."""
        self.engine.next_cycle_at(self.now)  # as the shell asks after every event
        self.now += seconds(after)
        return self.engine.run_cycle(self.now)

    def admitted(self, *, after: float = 0) -> list[str]:
        """Run a cycle and return the names of the workloads that it admitted, in order."""
        plan = self.cycle(after=after)
        return [d.workload.partition("/")[2] for d in plan.decisions if isinstance(d, Admit)]

    def write_back(self, plan: CyclePlan) -> None:
        """Let the written admissions come back as events."""
        for decision in plan.decisions:
            if isinstance(decision, Admit):
                workload = self.workloads[decision.workload]
                self.submit(reserved(workload, decision.admission, admitted=decision.admitted))

    def finish(self, name: str) -> None:
        self.submit(with_changes(self.workloads[f"{NAMESPACE}/{name}"], finished=True))

    def delete(self, name: str) -> None:
        self.engine.delete_workload(f"{NAMESPACE}/{name}", self.now)

    def reason(self, name: str) -> str:
        """The reason and message why a workload is pending."""
        explanation = self.engine.workload_reason(f"{NAMESPACE}/{name}")
        return "" if explanation is None else f"{explanation.reason}: {explanation.message}"
