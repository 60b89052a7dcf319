"""The objects that a worker must have, from the manager's own objects and the fleet file.

The manager already declares how a job reaches a worker: a LocalQueue leads to a ClusterQueue whose
check lists workers. Each of these workers needs the namespace, the LocalQueue of the same name, and
the priority classes. Flavors and quotas are the worker's own and come from the fleet file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.api.names import PROJECTED_FROM, V1BETA2
from multiqueue.api.validation.access import Object, items, mapping, text
from multiqueue.lint.rules.workers import workers_of
from multiqueue.lint.world import LintInput, flavors_of, labels_of, name_of, namespace_of
from multiqueue.projection.fleet import FleetConfiguration, FleetWorker, Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The objects that a worker must have.

    Attributes:
        objects: Manifests with the manager's label, in an order in which references resolve.
        closed: Kinds that are declared completely: other objects with our label are left over.
        problems: Problems of the declaration, each a sentence that says what to do.
    """

    objects: tuple[Object, ...]
    closed: frozenset[str]
    problems: tuple[str, ...]


FROM_MANAGER = frozenset({"Namespace", "WorkloadPriorityClass", "LocalQueue"})
"""The kinds that are declared even without a fleet file."""


def build_desired(
    name: str,
    *,
    manager: LintInput,
    fleet: FleetConfiguration | None,
    there: LintInput,
    origin: str,
) -> Desired:
    """Return the objects that a worker must have.

    Args:
        name: The name of its MultiKueueCluster.
        manager: The manager's objects.
        fleet: The fleet file; without one the manager's objects alone are the declaration.
        there: The worker's objects. LocalQueues about which nothing is declared keep their
            ClusterQueue.
        origin: The value of the label `PROJECTED_FROM`.
    """
    declared = fleet or FleetConfiguration()
    worker = declared.worker(name)
    problems: list[str] = []
    queues = list(queues_of_worker(name, manager))
    flavors = list(_flavors(worker, manager, there, problems))
    made = [
        *_namespaces(queues, worker, manager, problems),
        *_topologies(worker, flavors, manager, problems),
        *flavors,
        *_priority_classes(manager),
        *(_ours("Cohort", item.name, item.spec) for item in worker.cohorts),
        *(
            _ours("ClusterQueue", queue.name, {"namespaceSelector": {}, **queue.spec})
            for queue in worker.cluster_queues
        ),
        *_local_queues(queues, worker, there, problems),
    ]
    return Desired(
        objects=tuple(_labelled(obj, origin) for obj in made if obj["kind"] in declared.kinds),
        closed=frozenset(declared.kinds) if fleet is not None else FROM_MANAGER,
        problems=tuple(problems),
    )


def queues_of_worker(name: str, manager: LintInput) -> Iterator[Object]:
    """Yield the manager's LocalQueues whose jobs may be sent to a worker."""
    for queue in manager.all("LocalQueue"):
        target = manager.get("ClusterQueue", _target(queue))
        if target is not None and name in workers_of(target, manager):
            yield queue


def _namespaces(
    queues: Sequence[Object], worker: FleetWorker, manager: LintInput, problems: list[str]
) -> Iterator[Object]:
    """Yield the namespaces, with only the labels by which ClusterQueues select them."""
    selectors = [mapping(q, "spec", "namespaceSelector") for q in manager.all("ClusterQueue")]
    selectors += [mapping(q.spec, "namespaceSelector") for q in worker.cluster_queues]
    wanted = {key for selector in selectors for key in _keys(selector)}
    for name in sorted({namespace_of(queue) for queue in queues}):
        here = manager.get("Namespace", name)
        if here is None:
            problems.append(f'namespace "{name}" is not on the manager any more')
            continue
        labels = {k: v for k, v in labels_of(here).items() if k in wanted}
        labels.pop("kubernetes.io/metadata.name", None)
        metadata = {"name": name, "labels": dict(sorted(labels.items()))}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _keys(selector: Object) -> Iterator[str]:
    yield from mapping(selector, "matchLabels")
    for _, expression in items(selector.get("matchExpressions")):
        yield text(expression.get("key"))


def _flavors(
    worker: FleetWorker, manager: LintInput, there: LintInput, problems: list[str]
) -> Iterator[Object]:
    """Yield the flavors that the worker's declared queues name, and those that are listed.

    If no queue is declared, yield the flavors on both sides, since one name means one hardware.
    """
    listed = {item.name: item for item in worker.flavors}
    holders = [{"spec": item.spec} for item in (*worker.cluster_queues, *worker.cohorts)]
    named = {text(flavor.get("name")) for holder in holders for _, flavor in flavors_of(holder)}
    if not worker.cluster_queues:
        here = {name_of(flavor) for flavor in manager.all("ResourceFlavor")}
        named |= here & {name_of(flavor) for flavor in there.all("ResourceFlavor")}
    for name in sorted({*listed, *named}):
        spec = _spec("ResourceFlavor", name, manager, listed.get(name))
        if spec is None:
            problems.append(
                f'ResourceFlavor "{name}" is neither on the manager nor in flavors of worker '
                f'"{worker.name}"; declare it in one of them'
            )
        else:
            yield _ours("ResourceFlavor", name, spec)


def _topologies(
    worker: FleetWorker, flavors: Iterable[Object], manager: LintInput, problems: list[str]
) -> Iterator[Object]:
    listed = {item.name: item for item in worker.topologies}
    named = {text(mapping(flavor, "spec").get("topologyName")) for flavor in flavors} - {""}
    for name in sorted({*listed, *named}):
        spec = _spec("Topology", name, manager, listed.get(name))
        if spec is None:
            problems.append(
                f'Topology "{name}" is neither on the manager nor in topologies of worker '
                f'"{worker.name}"; declare it in one of them'
            )
        else:
            yield _ours("Topology", name, spec)


def _spec(kind: str, name: str, manager: LintInput, item: Item | None) -> dict[str, Any] | None:
    """Return the manager's spec, overridden by the fleet file; None if neither has one."""
    here = manager.get(kind, name)
    if here is None:
        return dict(item.spec) if item is not None else None
    return {**mapping(here, "spec"), **(item.spec if item is not None else {})}


def _priority_classes(manager: LintInput) -> Iterator[Object]:
    """Yield all priority classes, since jobs may name any."""
    for here in manager.all("WorkloadPriorityClass"):
        made = _ours("WorkloadPriorityClass", name_of(here), None)
        made["value"] = here.get("value", 0)
        if here.get("description"):
            made["description"] = here["description"]
        yield made


def _local_queues(
    queues: Sequence[Object], worker: FleetWorker, there: LintInput, problems: list[str]
) -> Iterator[Object]:
    for queue in queues:
        target = _target_there(queue, worker, there)
        if target:
            made = _ours("LocalQueue", name_of(queue), {"clusterQueue": target})
            made["metadata"]["namespace"] = namespace_of(queue)
            yield made
        else:
            key = f"{namespace_of(queue)}/{name_of(queue)}"
            problems.append(_why_open(key, worker.name, there))


def _target_there(queue: Object, worker: FleetWorker, there: LintInput) -> str:
    """Return the worker's ClusterQueue for a LocalQueue; empty if it is ambiguous."""
    here = _target(queue)
    declared = worker.cluster_queues
    for each in declared:
        if here in each.serves:
            return each.name
    for each in declared:
        if not each.serves:
            return each.name
    present = there.get("LocalQueue", name_of(queue), namespace_of(queue))
    if present is not None:
        return _target(present)
    names = [name_of(each) for each in there.all("ClusterQueue")]
    if here in names:
        return here
    return names[0] if len(names) == 1 else ""


def _why_open(key: str, worker: str, there: LintInput) -> str:
    if there.all("ClusterQueue"):
        return (
            f'LocalQueue "{key}" could lead to any ClusterQueue of worker "{worker}"; say which '
            "one in clusterQueues[].serves of the fleet file"
        )
    return (
        f'LocalQueue "{key}" can lead nowhere: worker "{worker}" has no ClusterQueue; declare one '
        "in the fleet file, or make it there"
    )


def _target(queue: Object) -> str:
    return text(mapping(queue, "spec").get("clusterQueue"))


def _ours(kind: str, name: str, spec: Mapping[str, Any] | None) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": V1BETA2, "kind": kind, "metadata": {"name": name}}
    return obj if spec is None else {**obj, "spec": dict(spec)}


def _labelled(obj: Mapping[str, Any], origin: str) -> dict[str, Any]:
    metadata = mapping(obj, "metadata")
    labels = {**mapping(metadata, "labels"), PROJECTED_FROM: origin}
    return {**obj, "metadata": {**metadata, "labels": labels}}
