"""A Workload with one provisioning check, and the requests that were made for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from multiqueue.api.autoscaling import (
    PodTemplateReference,
    ProvisioningRequest,
    ProvisioningRequestPodSet,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)
from multiqueue.api.conditions import CheckState, ProvisioningCondition
from multiqueue.api.v1beta2 import (
    AdmissionCheckState,
    ObjectMeta,
    OwnerReference,
    PodSet,
    ResourceFlavor,
    Workload,
)
from multiqueue.api.v1beta2.admission_check import (
    ProvisioningRequestConfigSpec,
    ProvisioningRequestRetryStrategy,
)
from multiqueue.api.v1beta2.meta import Condition, format_time
from multiqueue.api.v1beta2.resource_flavor import ResourceFlavorSpec
from multiqueue.controllers.provisioning.naming import request_name, template_name
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView
from tests.builders.workloads import (
    NAMESPACE,
    T0,
    make_template,
    make_workload,
    reserved,
    with_status,
)

CLASS = "queued.gke.io"
CHECK = "prov"


def config(**spec: Any) -> ProvisioningRequestConfigSpec:
    return ProvisioningRequestConfigSpec(**{"provisioning_class_name": CLASS, **spec})


def retries(*, limit: int = 3, base: int = 60, most: int = 1800) -> dict[str, Any]:
    strategy = ProvisioningRequestRetryStrategy(
        backoff_limit_count=limit, backoff_base_seconds=base, backoff_max_seconds=most
    )
    return {"retry_strategy": strategy}


def holding(
    *,
    state: CheckState = CheckState.PENDING,
    retry_count: int | None = None,
    checks: tuple[str, ...] = (CHECK,),
    workload: Workload | None = None,
) -> Workload:
    """A Workload with quota, every check in the same state."""
    workload = reserved(workload or make_workload())
    states = tuple(
        AdmissionCheckState(
            name=name,
            state=str(state),
            last_transition_time=format_time(T0),
            retry_count=retry_count,
        )
        for name in checks
    )
    return with_status(workload, msgspec.structs.replace(workload.status, admission_checks=states))


def counting(workload: Workload, **counts: int) -> Workload:
    """Assign other numbers of pods than asked for."""
    admission = workload.status.admission
    assert admission is not None
    assignments = tuple(
        msgspec.structs.replace(a, count=counts.get(a.name, a.count))
        for a in admission.pod_set_assignments
    )
    admission = msgspec.structs.replace(admission, pod_set_assignments=assignments)
    return with_status(workload, msgspec.structs.replace(workload.status, admission=admission))


def pod_set(name: str = "main", count: int = 1, **template: Any) -> PodSet:
    return PodSet(name=name, count=count, template=make_template(**template))


def conditions(**messages: str) -> dict[ProvisioningCondition, str]:
    return {ProvisioningCondition(name): message for name, message in messages.items()}


def request(
    attempt: int = 1,
    *true: ProvisioningCondition,
    check: str = CHECK,
    workload: str = "wl",
    pod_sets: Mapping[str, int] | None = None,
    class_name: str = CLASS,
    parameters: Mapping[str, str] | None = None,
    details: Mapping[str, str] | None = None,
    false: Mapping[ProvisioningCondition, str] | None = None,
    deleted: bool = False,
) -> ProvisioningRequest:
    """A request of an attempt, with these conditions True; each says "<type>!"."""
    name = request_name(workload, check, attempt)
    known = [(type_, "True", f"{type_}!") for type_ in true]
    known += [(type_, "False", message) for type_, message in (false or {}).items()]
    return ProvisioningRequest(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=f"uid-{name}",
            deletion_timestamp=format_time(T0) if deleted else "",
            owner_references=(
                OwnerReference(kind="Workload", name=workload, uid=f"uid-{workload}"),
            ),
        ),
        spec=ProvisioningRequestSpec(
            provisioning_class_name=class_name,
            parameters=dict(parameters or {}),
            pod_sets=tuple(
                ProvisioningRequestPodSet(
                    pod_template_ref=PodTemplateReference(name=template_name(name, pods)),
                    count=count,
                )
                for pods, count in (pod_sets or {"main": 1}).items()
            ),
        ),
        status=ProvisioningRequestStatus(
            conditions=tuple(
                Condition(type=type_, status=status, reason="R", message=message)
                for type_, status, message in known
            ),
            provisioning_class_details=dict(details or {}),
        ),
    )


def flavor(name: str = "default", **labels: str) -> ResourceFlavor:
    return ResourceFlavor(
        metadata=ObjectMeta(name=name), spec=ResourceFlavorSpec(node_labels=labels)
    )


def whole(*requests: ProvisioningRequest) -> dict[str, tuple[OwnerReference, ...]]:
    """Owners of the templates of these requests, as they are once all is done."""
    return {
        pods.pod_template_ref.name: (
            OwnerReference(kind="ProvisioningRequest", uid=request.metadata.uid),
        )
        for request in requests
        for pods in request.spec.pod_sets
    }


def view(
    workload: Workload | None = None,
    *requests: ProvisioningRequest,
    spec: ProvisioningRequestConfigSpec | None = None,
    inactive: bool = False,
    **fields: Any,
) -> ProvisioningView:
    """What the controller knows about a Workload with the check "prov"."""
    checks = (ProvisioningCheck(name=CHECK, config=None if inactive else spec or config()),)
    defaults: dict[str, Any] = {
        "workload": workload or holding(),
        "checks": checks,
        "requests": requests,
        "template_owners": whole(*requests),
        "flavors": {"default": flavor()},
        "now": T0,
    }
    return ProvisioningView(**{**defaults, **fields})
