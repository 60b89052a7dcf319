"""The objects that rules look at: by name, by kind, and how much of a kind is in sight.

Objects are dicts as on the wire; ours are in v1beta2, whatever they were written in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Protocol

from multiqueue.api.config import Configuration
from multiqueue.api.conversion import convert
from multiqueue.api.job_kinds import JOB_KINDS, find_job_kind
from multiqueue.api.names import GROUP, QUEUE_NAME, V1ALPHA1, V1BETA1, V1BETA2
from multiqueue.api.validation.access import Object, items, mapping, text

OURS = (
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "LocalQueue",
    "MultiKueueCluster",
    "MultiKueueConfig",
    "ProvisioningRequestConfig",
    "ResourceFlavor",
    "Topology",
    "Workload",
    "WorkloadPriorityClass",
)
OWN = {"DispatchProfile": V1ALPHA1}
"""Kinds that upstream does not have -> their apiVersion."""
FOREIGN = {
    "LimitRange": "v1",
    "Namespace": "v1",
    "Node": "v1",
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "Secret": "v1",
}
"""Kinds of others that rules look at -> their apiVersion; and those of `JOB_KINDS`."""


_NAMESPACED = {"LimitRange", "LocalQueue", "PodDisruptionBudget", "Secret", "Workload"}.union(
    row.kind for row in JOB_KINDS
)


class Sight(Enum):
    """How much of a kind was read, which is what a missing name means."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


class Lookup(Protocol):
    """What a rule may ask at admission: objects by name."""

    @property
    def config(self) -> Configuration | None:
        """The manager's configuration, where it is known."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object; None where it is not in sight."""

    def sight(self, kind: str) -> Sight:
        """How much of a kind is in sight."""


@dataclass(frozen=True, slots=True)
class LintEntry:
    """An object and where it stands: ``file:line``, or nothing."""

    obj: Object
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSurroundings:
    """What is known besides objects.

    Attributes:
        complete: Kinds of which everything was read.
        config: The manager's configuration, where it is known.
        workers: The worlds of the workers, by MultiKueueCluster.
        worker_problems: MultiKueueCluster -> why its cluster could not be looked at.
        kubeconfig_problems: MultiKueueCluster -> why the manager will refuse its kubeconfig.
    """

    complete: frozenset[str] = frozenset()
    config: Configuration | None = None
    workers: Mapping[str, LintInput] | None = None
    worker_problems: Mapping[str, str] | None = None
    kubeconfig_problems: Mapping[str, str] | None = None


class LintInput:
    """Everything that was read of one cluster, or from files. Never changed once built."""

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
        """Return an object; None where it was not read."""
        entry = self._by_kind.get(kind, {}).get((namespace, name))
        return entry.obj if entry else None

    def sight(self, kind: str) -> Sight:
        """How much of a kind was read."""
        if kind in self._complete:
            return Sight.ALL
        return Sight.SOME if kind in self._by_kind else Sight.NONE

    def entries(self, kind: str) -> Sequence[LintEntry]:
        """Return the objects of a kind with where they stand, by namespace and name."""
        by_name = self._by_kind.get(kind, {})
        return [by_name[key] for key in sorted(by_name)]

    def all(self, kind: str) -> Sequence[Object]:
        """Return the objects of a kind, by namespace and name."""
        return [entry.obj for entry in self.entries(kind)]

    @property
    def count(self) -> int:
        """Objects that rules can look at."""
        return sum(map(len, self._by_kind.values()))

    @cached_property
    def queues_by_root(self) -> Mapping[str, Sequence[Object]]:
        """ClusterQueues by the root of their cohort tree; those without cohort are left out."""
        found: dict[str, list[Object]] = {}
        for queue in self.all("ClusterQueue"):
            cohort = text(mapping(queue, "spec").get("cohortName"))
            if cohort:
                found.setdefault(root_of(cohort, self), []).append(queue)
        return found

    @cached_property
    def queues_by_flavor(self) -> Mapping[str, Sequence[Object]]:
        """ClusterQueues by the flavors they name."""
        found: dict[str, list[Object]] = {}
        for queue in self.all("ClusterQueue"):
            for name in sorted({text(f.get("name")) for _, f in flavors_of(queue)}):
                found.setdefault(name, []).append(queue)
        return found


def known_kind(obj: Object) -> str:
    """The kind of an object that rules look at; empty for all others."""
    kind, version = text(obj.get("kind")), text(obj.get("apiVersion"))
    if version.startswith(f"{GROUP}/"):
        return kind if version in {V1BETA1, V1BETA2} and kind in OURS else ""
    row = find_job_kind(version, kind)
    if row is not None:
        return kind if row.is_queued or QUEUE_NAME in labels_of(obj) else ""
    return kind if version in {FOREIGN.get(kind), OWN.get(kind)} else ""


def name_of(obj: Object) -> str:
    """Its name; what it will be called after for one that the server names."""
    metadata = mapping(obj, "metadata")
    return text(metadata.get("name")) or text(metadata.get("generateName"))


def namespace_of(obj: Object) -> str:
    """Its namespace; kubectl's default where a namespaced one names none."""
    kind = text(obj.get("kind"))
    if kind not in _NAMESPACED:
        return ""
    return text(mapping(obj, "metadata").get("namespace")) or "default"


def labels_of(obj: Object) -> dict[str, str]:
    """Its labels."""
    found = mapping(obj, "metadata", "labels")
    return {k: v for k, v in found.items() if isinstance(v, str)}


def flavors_of(queue: Object) -> Iterable[tuple[str, Object]]:
    """(path, quotas) of each flavor of a ClusterQueue or Cohort."""
    for i, group in items(mapping(queue, "spec").get("resourceGroups")):
        for j, flavor in items(group.get("flavors")):
            yield f"spec.resourceGroups[{i}].flavors[{j}]", flavor


def root_of(cohort: str, lookup: Lookup) -> str:
    """The root of a cohort's tree; of a cycle its first name."""
    seen: list[str] = []
    while cohort not in seen:
        seen.append(cohort)
        parent = text(mapping(lookup.get("Cohort", cohort), "spec").get("parentName"))
        if not parent:
            return cohort
        cohort = parent
    return min(seen[seen.index(cohort) :])
