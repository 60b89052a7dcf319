"""The users of an object, because of which it must not be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from multiqueue.api.validation.access import Object, has_condition, mapping, text
from multiqueue.lint.quotas import cohort_of
from multiqueue.lint.world import LintInput, Sight, flavors_of, name_of, namespace_of

Key = tuple[str, str, str]
"""Kind, namespace and name."""
MAX_NAMED = 3


def key_of(obj: Object) -> Key:
    """Return an object's kind, namespace and name."""
    return text(obj.get("kind")), namespace_of(obj), name_of(obj)


def find_users(obj: Object, others: Iterable[Object], there: LintInput) -> str:
    """Name a few users of an object; empty if it has none.

    Args:
        obj: The object to delete.
        others: The objects that stay, in their new form.
        there: The worker's objects; if its Workloads were not read, queues and classes count as
            used.
    """
    users = [*_objects(obj, others), *_workloads(obj, there)]
    if not users:
        return ""
    more = f" and {len(users) - MAX_NAMED} more" if len(users) > MAX_NAMED else ""
    return ", ".join(users[:MAX_NAMED]) + more


def _objects(obj: Object, others: Iterable[Object]) -> Iterator[str]:
    kind, _, name = key_of(obj)
    for other in others:
        if (kind, name) in _references(other):
            namespace = namespace_of(other)
            yield f'{other["kind"]} "{namespace + "/" if namespace else ""}{name_of(other)}"'


def _references(obj: Object) -> set[tuple[str, str]]:
    spec = mapping(obj, "spec")
    match obj.get("kind"):
        case "LocalQueue":
            return {("ClusterQueue", text(spec.get("clusterQueue")))}
        case "ClusterQueue" | "Cohort":
            flavors = {("ResourceFlavor", text(f.get("name"))) for _, f in flavors_of(obj)}
            return flavors | {("Cohort", cohort_of(obj))}
        case "ResourceFlavor":
            return {("Topology", text(spec.get("topologyName")))}
        case _:
            return set()


def _workloads(obj: Object, there: LintInput) -> Iterator[str]:
    kind, namespace, name = key_of(obj)
    if kind not in {"LocalQueue", "ClusterQueue", "WorkloadPriorityClass"}:
        return
    if there.sight("Workload") is not Sight.ALL:
        yield "Workloads, perhaps: they could not be read"
        return
    for workload in there.all("Workload"):
        if has_condition(workload, "Finished"):
            continue
        spec = mapping(workload, "spec")
        reserved = text(mapping(workload, "status", "admission").get("clusterQueue"))
        used = {
            "LocalQueue": (namespace_of(workload), text(spec.get("queueName"))),
            "ClusterQueue": ("", reserved),
            "WorkloadPriorityClass": ("", text(mapping(spec, "priorityClassRef").get("name"))),
        }
        if used[kind] == (namespace, name):
            yield f'Workload "{namespace_of(workload)}/{name_of(workload)}"'
