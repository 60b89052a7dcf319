"""SparkApplication as a queued kind. Pure. Parity: J-447..J-468.

The pods are described by fields of their own for each role, not by templates. Deviates: `cores` is
the CPU request of a role without `coreRequest`, as in the pods that Spark makes (J-449); the global
node selector is part of both pod sets, and both roles have it after a stop (J-459).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.api.v1beta2 import PodSet
from multiqueue.jobs.framework.fields import drop_field, get_field, set_field
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.framework.pod_set_info import apply_info
from multiqueue.jobs.framework.template_kind import PodSetSource, TemplateKind
from multiqueue.jobs.spark.resources import build_resources

ROLES = ("driver", "executor")
_SELECTOR = ("spec", "nodeSelector")
_GATES = ("template", "spec", "schedulingGates")
_METADATA, _SPEC = ("labels", "annotations"), ("nodeSelector", "tolerations")
_ENDED = frozenset({"COMPLETED", "FAILED", "SUBMISSION_FAILED"})
_READY = frozenset({"RUNNING", "COMPLETED"})


class SparkApplication(TemplateKind):
    """The integration ``sparkoperator.k8s.io/sparkapplication``: a driver and executors."""

    managed_by_field = None

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return the pod sets of the driver and of the executors."""
        counts = {"driver": 1, "executor": _instances(job)}
        return [
            PodSetSource(name=role, template=("spec", role, "template"), count=counts[role])
            for role in ROLES
        ]

    def template_of(self, job: Job, source: PodSetSource) -> Mapping[str, Any]:
        """Return the template that the fields of a role describe."""
        role = _role(job, source.name)
        base = get_field(role, ("template", "metadata")) or {}
        metadata = {key: {**(base.get(key) or {}), **(role.get(key) or {})} for key in _METADATA}
        main = {
            "name": f"spark-kubernetes-{source.name}",
            "image": role.get("image") or get_field(job, ("spec", "image")),
            "resources": build_resources(role),
        }
        containers = [_filled(main), *(role.get("sidecars") or ())]
        spec = {
            "containers": containers,
            "restartPolicy": "Never",
            "schedulingGates": get_field(role, _GATES),
        }
        for field in ("initContainers", *_SPEC, "affinity", "priorityClassName"):
            spec[field] = role.get(field)
        spec["nodeSelector"] = get_field(job, _SELECTOR) or role.get("nodeSelector")
        return {"metadata": _filled(metadata), "spec": _filled(spec)}

    def started(self, job: Job, infos: Sequence[PodSetInfo]) -> Job:
        """Return the application with the admission's fields in its roles, not suspended.

        Spark allows no selectors of roles beside a global one, so that moves to the roles.
        """
        if len(infos) != len(ROLES):
            raise InvalidJobError(
                f"invalid podset infos: expecting {len(ROLES)} podset, got {len(infos)}"
            )
        for name, info in zip(ROLES, infos, strict=True):
            role = _role(job, name)
            selector = get_field(job, _SELECTOR) or role.get("nodeSelector")
            added = apply_info(
                {
                    "metadata": {key: role.get(key) for key in _METADATA},
                    "spec": {
                        "nodeSelector": selector,
                        "tolerations": role.get("tolerations"),
                        "schedulingGates": get_field(role, _GATES),
                    },
                },
                info,
            )
            job = set_field(job, ("spec", name), _with_fields(name, role, added))
        return self.set_suspended(drop_field(job, _SELECTOR), value=False)

    def restored(self, job: Job, pod_sets: Sequence[PodSet]) -> Job:
        """Return the application with the fields of its Workload.

        Deviates: its count of executors stays. Upstream sets it to the admitted one, which undoes a
        change that somebody made while the application ran, and for which it was stopped.
        """
        if len(pod_sets) != len(ROLES):
            return job
        for name, pod_set in zip(ROLES, pod_sets, strict=True):
            role = _with_fields(name, _role(job, name), pod_set.template)
            job = set_field(job, ("spec", name), role)
        restored: Job = drop_field(job, _SELECTOR)
        return restored

    def finished(self, job: Job) -> Finished | None:
        """Return the end by the application's state."""
        state, message = _state(job), get_field(job, (*_STATE, "errorMessage"))
        if state not in _ENDED:
            return None
        return Finished(success=state == "COMPLETED", message=str(message or ""))

    def is_active(self, job: Job) -> bool:
        """Whether the driver runs; the operator retries within the same admission (J-463)."""
        return _state(job) == "RUNNING"

    def pods_ready(self, job: Job) -> bool:
        """Whether the driver and all executors run; finished executors count (J-461)."""
        states = (get_field(job, ("status", "executorState")) or {}).values()
        ready = sum(state in _READY for state in states)
        return _state(job) == "RUNNING" and ready >= _instances(job)


_STATE = ("status", "applicationState")


def _state(job: Job) -> str:
    return str(get_field(job, (*_STATE, "state")) or "")


def _instances(job: Job) -> int:
    return int(get_field(job, ("spec", "executor", "instances")) or 0)


def _role(job: Job, name: str) -> dict[str, Any]:
    return dict(get_field(job, ("spec", name)) or {})


def _with_fields(name: str, role: dict[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a role with the fields of a template that admission may change.

    Labels and annotations that the role's own template has are left out of the role.
    """
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    base = get_field(role, ("template", "metadata")) or {}
    fields = {key: spec.get(key) for key in _SPEC}
    for key in _METADATA:
        own = base.get(key) or {}
        values = metadata.get(key) or {}
        fields[key] = {k: value for k, value in values.items() if own.get(k) != value}
    others = {key: value for key, value in role.items() if key not in fields}
    changed = {**others, **_filled(fields)}
    return _with_gates(name, changed, spec.get("schedulingGates") or [])


def _with_gates(name: str, role: dict[str, Any], gates: Sequence[Any]) -> dict[str, Any]:
    """Return a role with these scheduling gates; only a pod template can have them."""
    empty = {"containers": [{"name": f"spark-kubernetes-{name}"}]}
    if gates:
        spec = {**empty, **(get_field(role, _GATES[:-1]) or {}), _GATES[-1]: list(gates)}
        return dict(set_field(role, _GATES[:-1], spec))
    role = drop_field(role, _GATES)
    if role.get("template") == {"spec": empty}:
        del role["template"]
    return role


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}
