"""The objects for the rules: by name, by kind, and how much of a kind was read.

Objects are dicts as on the wire. Those of our kinds are in v1beta2, whatever version they were
written in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Protocol

from multiqueue.api.config import Configuration
from multiqueue.api.conversion.convert import convert
from multiqueue.api.job_kinds import JOB_KINDS, find_job_kind, known_kinds
from multiqueue.api.names import GROUP, QUEUE_NAME, V1ALPHA1, V1BETA1, V1BETA2
from multiqueue.api.validation.access import Object, items, mapping, text
from multiqueue.api.validation.kinds import RULES
from multiqueue.model.owners import find_owner

OURS = tuple(RULES)
OWN = dict.fromkeys(("DispatchProfile", "DisruptionPolicy", "JobKind", "QuotaPlan"), V1ALPHA1)
"""The apiVersion of each kind that upstream does not have."""
FOREIGN = {
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "LimitRange": "v1",
    "Namespace": "v1",
    "Node": "v1",
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "ResourceQuota": "v1",
    "Secret": "v1",
}
"""The apiVersion of each other kind that rules read; those of `JOB_KINDS` are included."""


_NAMESPACED = {
    "LimitRange",
    "LocalQueue",
    "PodDisruptionBudget",
    "ResourceQuota",
    "Secret",
    "Workload",
}.union(row.kind for row in JOB_KINDS)


class Sight(Enum):
    """How much of a kind was read; it decides what a missing name means."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


class Lookup(Protocol):
    """The objects that a rule may use at admission, by name."""

    @property
    def config(self) -> Configuration | None:
        """The manager's configuration, if known."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object; None if it was not found."""

    def sight(self, kind: str) -> Sight:
        """Return how much of a kind was read."""


@dataclass(frozen=True, slots=True)
class LintEntry:
    """An object and its source: ``file:line``, or empty."""

    obj: Object
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSurroundings:
    """Facts beside objects.

    Attributes:
        complete: The kinds of which all objects were read.
        config: The manager's configuration, if known.
        workers: The input of each worker, by MultiKueueCluster.
        worker_problems: Why a worker could not be read, by MultiKueueCluster.
        kubeconfig_problems: Why the manager will refuse a kubeconfig, by MultiKueueCluster.
    """

    complete: frozenset[str] = frozenset()
    config: Configuration | None = None
    workers: Mapping[str, LintInput] | None = None
    worker_problems: Mapping[str, str] | None = None
    kubeconfig_problems: Mapping[str, str] | None = None


class LintInput:
    """All objects that were read from one cluster, or from files; immutable."""

    def __init__(
        self, entries: Iterable[LintEntry], surroundings: LintSurroundings | None = None, /
    ) -> None:
        around = surroundings or LintSurroundings()
        self.config = around.config
        self.workers = around.workers or {}
        self.worker_problems = around.worker_problems or {}
        self.kubeconfig_problems = around.kubeconfig_problems or {}
        self._complete = around.complete
        self._by_kind: dict[str, dict[tuple[str, str], LintEntry]] = {}
        for entry in entries:
            kind = known_kind(entry.obj)
            if kind:
                hub = convert(entry.obj, V1BETA2) if kind in OURS else entry.obj
                objects = self._by_kind.setdefault(kind, {})
                objects[namespace_of(hub), name_of(hub)] = LintEntry(hub, entry.source)

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object; None if it was not read."""
        entry = self._by_kind.get(kind, {}).get((namespace, name))
        return entry.obj if entry else None

    def sight(self, kind: str) -> Sight:
        """Return how much of a kind was read."""
        if kind in self._complete:
            return Sight.ALL
        return Sight.SOME if kind in self._by_kind else Sight.NONE

    def entries(self, kind: str) -> Sequence[LintEntry]:
        """Return the objects of a kind with their sources, by namespace and name."""
        by_name = self._by_kind.get(kind, {})
        return [by_name[key] for key in sorted(by_name)]

    def all(self, kind: str) -> Sequence[Object]:
        """Return the objects of a kind, by namespace and name."""
        return [entry.obj for entry in self.entries(kind)]

    @property
    def count(self) -> int:
        """Return the number of objects that rules can check."""
        return sum(map(len, self._by_kind.values()))

    @cached_property
    def queues_by_root(self) -> Mapping[str, Sequence[Object]]:
        """The ClusterQueues by the root of their cohort tree, without those that have no cohort."""
        found: dict[str, list[Object]] = {}
        for queue in self.all("ClusterQueue"):
            cohort = text(mapping(queue, "spec").get("cohortName"))
            if cohort:
                found.setdefault(root_of(cohort, self), []).append(queue)
        return found

    @cached_property
    def owners_by_queue(self) -> Mapping[str, set[str]]:
        """The owners of the LocalQueues before each ClusterQueue (P-121)."""
        found: dict[str, set[str]] = {}
        for queue in self.all("LocalQueue"):
            namespace = namespace_of(queue)
            owner = find_owner(namespace, labels_of(self.get("Namespace", namespace) or {}))
            found.setdefault(text(mapping(queue, "spec").get("clusterQueue")), set()).add(owner)
        return found

    @cached_property
    def queues_by_flavor(self) -> Mapping[str, Sequence[Object]]:
        """The ClusterQueues by the flavors that they name."""
        found: dict[str, list[Object]] = {}
        for queue in self.all("ClusterQueue"):
            for name in sorted({text(f.get("name")) for _, f in flavors_of(queue)}):
                found.setdefault(name, []).append(queue)
        return found


def known_kind(obj: Object) -> str:
    """Return the kind of an object that rules can check; empty for all others."""
    kind, version = text(obj.get("kind")), text(obj.get("apiVersion"))
    if version.startswith(f"{GROUP}/"):
        return kind if version in {V1BETA1, V1BETA2} and kind in OURS else ""
    row = find_job_kind(version, kind)
    if row is not None:
        name = row.external_name if row.is_declared else kind
        return name if row.framework == "batch/job" or QUEUE_NAME in labels_of(obj) else ""
    return kind if version in {FOREIGN.get(kind), OWN.get(kind)} else ""


def declared_kinds() -> Sequence[str]:
    """Return the declared kinds that this context was told of, as `known_kind` names them."""
    return [row.external_name for row in known_kinds() if row.is_declared]


def why_unread(obj: Object) -> str:
    """Return the kind that no rule reads, or why rules do not read the object; empty if they do."""
    if known_kind(obj):
        return ""
    kind, version = text(obj.get("kind")), text(obj.get("apiVersion"))
    row = find_job_kind(version, kind)
    unlabelled = f" without the label {QUEUE_NAME}" if row is not None else ""
    return f"{kind} ({version}){unlabelled}"


def name_of(obj: Object) -> str:
    """Return an object's name, or its generateName if the server will name it."""
    metadata = mapping(obj, "metadata")
    return text(metadata.get("name")) or text(metadata.get("generateName"))


def namespace_of(obj: Object) -> str:
    """Return an object's namespace; kubectl's default if a namespaced object names none."""
    kind = text(obj.get("kind"))
    if kind not in _NAMESPACED and find_job_kind(text(obj.get("apiVersion")), kind) is None:
        return ""
    return text(mapping(obj, "metadata").get("namespace")) or "default"


def labels_of(obj: Object) -> dict[str, str]:
    """Return an object's labels."""
    found = mapping(obj, "metadata", "labels")
    return {k: v for k, v in found.items() if isinstance(v, str)}


def flavors_of(queue: Object) -> Iterable[tuple[str, Object]]:
    """Yield (path, quotas) for each flavor of a ClusterQueue or Cohort."""
    for i, group in items(mapping(queue, "spec").get("resourceGroups")):
        for j, flavor in items(group.get("flavors")):
            yield f"spec.resourceGroups[{i}].flavors[{j}]", flavor


def root_of(cohort: str, lookup: Lookup) -> str:
    """Return the root of a cohort's tree; in a cycle, its first name."""
    seen: list[str] = []
    while cohort not in seen:
        seen.append(cohort)
        parent = text(mapping(lookup.get("Cohort", cohort), "spec").get("parentName"))
        if not parent:
            return cohort
        cohort = parent
    return min(seen[seen.index(cohort) :])
