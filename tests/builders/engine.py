"""Nouns of the engine: its queues, pod sets and Workloads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2.meta import Condition, LabelSelector
from multiqueue.model.cluster_queue import (
    CheckRule,
    ClusterQueue,
    FlavorQuotas,
    Quota,
    ResourceGroup,
)
from multiqueue.model.placement import ANYWHERE, Placement
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


READY, PENDING, RETRY, REJECTED = (
    CheckState.READY,
    CheckState.PENDING,
    CheckState.RETRY,
    CheckState.REJECTED,
)


def check_rule(name: str, *flavors: str) -> CheckRule:
    return CheckRule(name=name, on_flavors=frozenset(flavors))
