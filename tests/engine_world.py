"""Builders of engine nouns and a small driver for unit, property, replay and bench tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2.meta import Condition, LabelSelector
from multiqueue.engine.engine import Engine
from multiqueue.engine.flavors.oracle import Oracle
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    CheckRule,
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    Quota,
    ResourceGroup,
)
from multiqueue.model.placement import ANYWHERE, Placement
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.resources import parse_quota, parse_request
from multiqueue.model.workload import Admission, PodSet, Reservation, Workload

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "team"


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def quota(
    resource: str,
    nominal: str | int,
    *,
    borrow: str | int | None = None,
    lend: str | int | None = None,
) -> Quota:
    def limit(raw: str | int | None) -> int | None:
        return None if raw is None else parse_quota(resource, raw)

    return Quota(
        nominal=parse_quota(resource, nominal),
        borrowing_limit=limit(borrow),
        lending_limit=limit(lend),
    )


def flavor_quotas(name: str, **resources: str | int | Quota) -> FlavorQuotas:
    """``flavor_quotas("a100", gpu=8)``; ``gpu`` stands for nvidia.com/gpu."""
    quotas = {}
    for short, value in resources.items():
        resource = resource_name(short)
        quotas[resource] = value if isinstance(value, Quota) else quota(resource, value)
    return FlavorQuotas(name=name, quotas=quotas)


def resource_name(short: str) -> str:
    return {"gpu": "nvidia.com/gpu"}.get(short, short)


def group(*flavors: FlavorQuotas) -> ResourceGroup:
    return ResourceGroup(covered_resources=tuple(flavors[0].quotas), flavors=flavors)


def make_queue(
    name: str = "cq", *groups: ResourceGroup | FlavorQuotas, **fields: object
) -> ClusterQueue:
    """A ClusterQueue open to every namespace; by default 10 cpu of flavor "default"."""
    whole = [g if isinstance(g, ResourceGroup) else group(g) for g in groups]
    defaults: dict[str, object] = {
        "namespace_selector": LabelSelector(),
        "resource_groups": tuple(whole or [group(flavor_quotas("default", cpu=10))]),
    }
    return ClusterQueue(name=name, **{**defaults, **fields})


def pod_set(
    name: str = "main",
    *,
    count: int = 1,
    min_count: int | None = None,
    placement: Placement = ANYWHERE,
    topology_request: object = None,
    **requests: str | int,
) -> PodSet:
    named = {resource_name(short): value for short, value in requests.items()}
    return PodSet(
        name=name,
        count=count,
        min_count=min_count,
        placement=placement,
        topology_request=topology_request,
        requests={name: parse_request(name, raw) for name, raw in sorted(named.items())},
    )


def make_workload(
    name: str,
    *,
    queue: str = "lq",
    at: datetime = T0,
    pod_sets: Sequence[PodSet] | None = None,
    namespace: str = NAMESPACE,
    uid: str = "",
    **fields: object,
) -> Workload:
    """A pending Workload; by default one pod that asks for 1 cpu."""
    return Workload(
        key=f"{namespace}/{name}",
        uid=uid or f"uid-{name}",
        queue=f"{namespace}/{queue}",
        created_at=at,
        queue_order_at=at,
        pod_sets=tuple(pod_sets if pod_sets is not None else [pod_set(cpu=1)]),
        **fields,
    )


def with_changes(workload: Workload, **changes: object) -> Workload:
    fields = {name: getattr(workload, name) for name in workload.__dataclass_fields__}
    return Workload(**{**fields, **changes})


def reserved(
    workload: Workload, admission: Admission, *, admitted: bool = True, at: datetime = T0
) -> Workload:
    """The Workload as it comes back after the status was written."""
    reservation = Reservation(admission=admission, reserved_at=at, admitted=admitted)
    return with_changes(workload, reservation=reservation)


def condition(type_: str, *, status: bool, reason: str = "", at: datetime = T0) -> Condition:
    return Condition(
        type=type_,
        status="True" if status else "False",
        reason=reason,
        last_transition_time=at.isoformat(),
    )


class World:
    """An engine with a namespace, flavors and LocalQueues that a test does not care about."""

    def __init__(
        self,
        *queues: ClusterQueue,
        flavors: Sequence[ResourceFlavor] = (),
        options: EngineOptions | None = None,
        oracle: Oracle | None = None,
        local_queues: Mapping[str, str] | None = None,
    ) -> None:
        self.engine = Engine(options or EngineOptions())
        if oracle is not None:
            self.engine._world = replace(self.engine._world, oracle=oracle)
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


READY, PENDING, RETRY, REJECTED = (
    CheckState.READY,
    CheckState.PENDING,
    CheckState.RETRY,
    CheckState.REJECTED,
)


def check_rule(name: str, *flavors: str) -> CheckRule:
    return CheckRule(name=name, on_flavors=frozenset(flavors))
