"""The objects created for a check: its request and PodTemplates. Pure. Parity: E-157."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api import names
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2.meta import OwnerReference
from multiqueue.controllers.provisioning.demand import Demand, list_demands
from multiqueue.controllers.provisioning.naming import request_name, template_name
from multiqueue.controllers.provisioning.selection import build_parameters
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView
from multiqueue.jobs.framework.pod_set_info import apply_info, flavor_info

Json = dict[str, Any]
_LABELS = {names.MANAGED: "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Complete bodies; the Workload owns all of them until the request exists."""

    request: Json
    templates: tuple[Json, ...]


def build_content(view: ProvisioningView, check: ProvisioningCheck, attempt: int) -> Content:
    """Return the objects of an attempt; the check must be active and needed.

    Raises:
        InconsistentAssignmentError: the admission lacks a pod set.
        FlavorNotFoundError: an assigned flavor does not exist.
        StartConflictError: a flavor contradicts a pod template, so no pod could ever run.
    """
    assert check.config is not None, "an inactive check asks for nothing"
    name = request_name(view.workload.metadata.name, check.name, attempt)
    demands = list_demands(view, check)
    request: Json = {
        "apiVersion": view.api_version,
        "kind": "ProvisioningRequest",
        "metadata": _metadata(view, name),
        "spec": {
            "provisioningClassName": check.config.provisioning_class_name,
            "podSets": [
                {
                    "podTemplateRef": {"name": template_name(name, demand.pod_set.name)},
                    "count": demand.count,
                }
                for demand in demands
            ],
        },
    }
    parameters = build_parameters(view.workload, check.config)
    if parameters:
        request["spec"]["parameters"] = dict(parameters)
    templates = tuple(_template(view, name, demand) for demand in demands)
    return Content(request=request, templates=templates)


def workload_owner(view: ProvisioningView) -> OwnerReference:
    """Return the reference to the Workload, as the controller of what is made for it."""
    return OwnerReference(
        api_version=names.V1BETA2,
        kind="Workload",
        name=view.workload.metadata.name,
        uid=view.workload.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def request_owner(api_version: str, name: str, uid: str) -> OwnerReference:
    """Return the reference to a request, as the controller of its templates."""
    return OwnerReference(
        api_version=api_version,
        kind="ProvisioningRequest",
        name=name,
        uid=uid,
        controller=True,
        block_owner_deletion=True,
    )


def _template(view: ProvisioningView, request: str, demand: Demand) -> Json:
    info = flavor_info(demand.assignment, demand.count, view.flavors.get)
    template = apply_info(demand.pod_set.template, info)
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _metadata(view, template_name(request, demand.pod_set.name)),
        "template": {**template, "spec": _with_requests(template.get("spec") or {})},
    }


def _metadata(view: ProvisioningView, name: str) -> Json:
    return {
        "name": name,
        "namespace": view.workload.metadata.namespace,
        "labels": dict(_LABELS),
        "ownerReferences": [encode(workload_owner(view))],
    }


def _with_requests(spec: Mapping[str, Any]) -> Json:
    """Copy limits to missing requests: the autoscaler counts requests."""
    result = dict(spec)
    for field in ("containers", "initContainers"):
        if field in spec:
            result[field] = [_requesting(container) for container in spec[field] or ()]
    return _requesting(result)


def _requesting(holder: Mapping[str, Any]) -> Json:
    resources = holder.get("resources") or {}
    if not resources.get("limits"):
        return dict(holder)
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**holder, "resources": {**resources, "requests": requests}}
