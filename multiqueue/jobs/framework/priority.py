"""The priority of a job's Workload, and the class that it comes from. Pure.

Parity: E-12. A WorkloadPriorityClass affects admission only; a PriorityClass is that of the
pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.names import DEFAULT_QUEUE, GROUP
from multiqueue.api.v1beta2 import PodSet, PriorityClassRef, WorkloadPriorityClass
from multiqueue.jobs.framework.integration import InvalidJobError

WORKLOAD_PRIORITY_CLASS = "WorkloadPriorityClass"
PRIORITY_CLASS = "PriorityClass"
PRIORITY_CLASS_GROUP = "scheduling.k8s.io"
DEFAULT_CLASS = DEFAULT_QUEUE
"""Name of the WorkloadPriorityClass for jobs that name none; used if it exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPriority:
    """A priority, and the class it comes from."""

    value: int = 0
    reference: PriorityClassRef | None = None


class PriorityClassNotFoundError(Exception):
    """The job names a class that does not exist; the job waits for the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClasses:
    """Access to the priority classes.

    Attributes:
        find_workload_class: Finds a WorkloadPriorityClass by name.
        find_pod_class: Finds a PriorityClass by name.
        list_pod_classes: Returns all PriorityClasses; called only if a job names no class.
        has_default: Gate WorkloadPriorityClassDefaulting.
    """

    find_workload_class: Callable[[str], WorkloadPriorityClass | None]
    find_pod_class: Callable[[str], Mapping[str, Any] | None]
    list_pod_classes: Callable[[], Iterable[Mapping[str, Any]]]
    has_default: bool = True


def resolve_priority(workload_class: str, pod_class: str, classes: PriorityClasses) -> JobPriority:
    """Return the priority for a job with these class names; empty if it names none.

    Raises:
        PriorityClassNotFoundError: a named class does not exist.
    """
    if workload_class:
        found = classes.find_workload_class(workload_class)
        if found is None:
            raise PriorityClassNotFoundError(
                f'WorkloadPriorityClass "{workload_class}" not found; create it'
                " or change the label of the job"
            )
        return workload_priority(found)
    default = classes.find_workload_class(DEFAULT_CLASS) if classes.has_default else None
    if default is not None:
        return workload_priority(default)
    if pod_class:
        pod = classes.find_pod_class(pod_class)
        if pod is None:
            raise PriorityClassNotFoundError(
                f'PriorityClass "{pod_class}" not found; create it or change the pod template'
            )
        return _pod_priority(pod)
    default_pod_class = _find_default(classes)
    return _pod_priority(default_pod_class) if default_pod_class else JobPriority()


def refuse_pod_priority(pod_sets: Iterable[PodSet], classes: PriorityClasses) -> None:
    """Refuse pod sets whose priority makes the API server reject their pods.

    The API server computes the priority from the class and accepts no other. A class that is
    unknown here is not judged, because the worker may have it.

    Raises:
        InvalidJobError: no pod of the job can ever be created.
    """
    for pod_set in pod_sets:
        spec = pod_set.template.get("spec") or {}
        given, name = spec.get("priority"), spec.get("priorityClassName")
        found = classes.find_pod_class(name) if name else _find_default(classes)
        if given is None or (name and found is None):
            continue
        value = (found or {}).get("value", 0)
        if given != value:
            source = (
                f'PriorityClass "{found["metadata"]["name"]}"' if found else "without PriorityClass"
            )
            raise InvalidJobError(
                f'pod set "{pod_set.name}": the pod template sets spec.priority {given}, but the '
                f"priority of its pods is {value} ({source}), so Kubernetes refuses to create "
                "them; remove spec.priority, and name a PriorityClass in spec.priorityClassName"
            )


def _find_default(classes: PriorityClasses) -> Mapping[str, Any] | None:
    """Return the default PriorityClass for pods that name none; of several, the lowest."""
    defaults = (c for c in classes.list_pod_classes() if c.get("globalDefault"))
    return min(defaults, key=lambda c: (c.get("value", 0), c["metadata"]["name"]), default=None)


def workload_priority(found: WorkloadPriorityClass) -> JobPriority:
    """Return the priority that a WorkloadPriorityClass gives."""
    reference = PriorityClassRef(
        group=GROUP, kind=WORKLOAD_PRIORITY_CLASS, name=found.metadata.name
    )
    return JobPriority(value=found.value, reference=reference)


def _pod_priority(found: Mapping[str, Any]) -> JobPriority:
    reference = PriorityClassRef(
        group=PRIORITY_CLASS_GROUP, kind=PRIORITY_CLASS, name=found["metadata"]["name"]
    )
    return JobPriority(value=int(found.get("value", 0)), reference=reference)
