"""Refuses new jobs while no manager runs: their pods would start without quota.

Webhooks alone do not: those of upstream are gone once ours is installed, and ours are registered
when it runs. A policy is evaluated by the API server itself and says what is going on.
"""

from __future__ import annotations

import contextlib
from typing import Any

from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.api.names import QUEUE_NAME
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, ApiError, NotFound
from multiqueue.kube.resources import JOBS, resource_of
from multiqueue.kube.retries import POLICIES

NAME = "multiqueue-migration"
MESSAGE = (
    "Kueue is being replaced and no manager runs; submit this again in a minute. If this stays, "
    "the administrator has to run the last command of multiqueue migrate again"
)
_API = "admissionregistration.k8s.io/v1"
_POLICY = "ValidatingAdmissionPolicy"
_CONTAINER = {"name": "probe", "image": "registry.k8s.io/pause"}
_PROBE = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": NAME, "namespace": "kube-system", "labels": {QUEUE_NAME: NAME}},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}},
}
_RESOURCES = (
    resource_of(_API, "validatingadmissionpolicies", _POLICY, namespaced=False),
    resource_of(_API, "validatingadmissionpolicybindings", f"{_POLICY}Binding", namespaced=False),
)


def build_guard() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a policy and its binding: what has a queue must be suspended by its author."""
    rules = [
        {
            "apiGroups": [kind.group],
            "apiVersions": ["*"],
            "operations": ["CREATE"],
            "resources": [kind.plural],
        }
        for kind in JOB_KINDS
        if kind.folder and not kind.implies_pods
    ]
    labelled = {"matchExpressions": [{"key": QUEUE_NAME, "operator": "Exists"}]}
    suspended = "has(object.spec.suspend) && object.spec.suspend == true"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"objectSelector": labelled, "resourceRules": rules},
        "validations": [{"expression": suspended, "message": MESSAGE}],
    }
    binding = {"policyName": NAME, "validationActions": ["Deny"]}
    metadata = {"name": NAME}
    return (
        {"apiVersion": _API, "kind": _POLICY, "metadata": metadata, "spec": policy},
        {"apiVersion": _API, "kind": f"{_POLICY}Binding", "metadata": metadata, "spec": binding},
    )


async def put_guard(client: KubeClient) -> None:
    """Refuse new jobs from now on; return once the API server does so.

    It is asked whether it would take a job in the namespace that Kueue's webhooks leave out. If
    they suspend that job, too, the answer does not tell, and ten seconds are waited.
    """
    for resource, obj in zip(_RESOURCES, build_guard(), strict=True):
        with contextlib.suppress(AlreadyExists):
            await client.create(resource, obj)

    async def refuses() -> bool:
        try:
            await client.create(JOBS, _PROBE, dry_run=True)
        except ApiError as error:
            return MESSAGE in error.server_message
        return False

    await POLICIES.run(refuses, until=bool)


async def lift_guard(client: KubeClient) -> None:
    """Accept new jobs again."""
    for resource in reversed(_RESOURCES):
        with contextlib.suppress(NotFound):
            await client.delete(resource, NAME)
