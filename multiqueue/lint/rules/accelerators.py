"""Rules about what else decides on accelerators: other quotas, rights, weights, bare nodes."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.names import GROUP
from multiqueue.api.validation.access import Object, items, mapping, quantity, text
from multiqueue.lint.finding import Severity
from multiqueue.lint.nodes import has_taint, matching_nodes, needs_nodes
from multiqueue.lint.quotas import ZERO, covered_by, quotas_of
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import LintInput, Lookup, labels_of, name_of, namespace_of
from multiqueue.model.cluster_queue import AdmissionMode
from multiqueue.model.resources import is_accelerator

LARGEST_WEIGHT_OF_BYTES = 1e-9
"""With it a gigabyte counts like one device."""
_KINDS_OF_QUOTA = ("requests.", "limits.")
_QUEUES = frozenset({"*", "clusterqueues", "cohorts", "localqueues", "workloads"})
_OF_KUBERNETES = "kubernetes.io/bootstrapping"
"""The label of the roles that every API server makes, such as cluster-admin."""


@lint_rule(
    "resource-quota-on-accelerators",
    kinds=("ResourceQuota",),
    severity=Severity.WARNING,
    title="a ResourceQuota on accelerators in a namespace with a LocalQueue",
    why="Queues do not know it: a job is admitted and holds quota while the API server refuses its "
    "pods.",
)
def resource_quota(limits: Object, world: LintInput) -> Iterator[Hit]:
    namespace = namespace_of(limits)
    queues = [q for q in world.all("LocalQueue") if namespace_of(q) == namespace]
    for key in sorted(mapping(limits, "spec", "hard")) if queues else ():
        resource = key
        for prefix in _KINDS_OF_QUOTA:
            resource = resource.removeprefix(prefix)
        if is_accelerator(resource):
            yield Hit(
                f"spec.hard[{key}]",
                f'limits {resource} in namespace "{namespace}", which has LocalQueue '
                f'"{name_of(queues[0])}"',
                "remove it; limit the namespace by the quota of a ClusterQueue of its own",
            )


@lint_rule(
    "role-wildcard",
    kinds=("ClusterRole",),
    severity=Severity.WARNING,
    title="a ClusterRole with * on queues",
    why="Whoever has it can raise quotas, write the status of Workloads and so admit jobs past "
    "every queue.",
)
def wildcard(role: Object, _: Lookup) -> Iterator[Hit]:
    if _OF_KUBERNETES in labels_of(role) or role.get("aggregationRule"):
        return
    for i, rule in items(role.get("rules")):
        groups, verbs = (set(rule.get(field) or ()) for field in ("apiGroups", "verbs"))
        resources = _QUEUES & set(rule.get("resources") or ())
        if resources and groups & {"*", GROUP} and "*" in verbs:
            yield Hit(
                f"rules[{i}].verbs",
                f"has every verb on {', '.join(sorted(resources))} of "
                f"{', '.join(sorted(groups & {'*', GROUP}))}",
                "list the verbs; kueue-batch-admin-role and kueue-batch-user-role have what "
                "people need",
            )


def _is_usage_based(queue: Object) -> bool:
    scope = mapping(queue, "spec", "admissionScope")
    return text(scope.get("admissionMode")) == AdmissionMode.USAGE_BASED


@lint_rule(
    "fair-admission-not-configured",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="a queue with fair admission, without the section of the configuration",
    why="Past usage is not counted without the section, so the LocalQueues take no turns.",
)
def without_section(queue: Object, lookup: Lookup) -> Iterator[Hit]:
    config = lookup.config
    if config is None or not _is_usage_based(queue) or config.admission_fair_sharing is not None:
        return
    yield Hit(
        "spec.admissionScope.admissionMode",
        f"is {AdmissionMode.USAGE_BASED}, but the configuration has no admissionFairSharing",
        "add admissionFairSharing to the configuration, with a usageHalfLifeTime, or remove the "
        "mode",
    )


@lint_rule(
    "fair-admission-weighs-bytes",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="a queue with fair admission that weighs bytes like devices",
    why="Past usage is then a sum of bytes, in which accelerators do not show: who asks for much "
    "memory comes last.",
)
def bytes_like_devices(queue: Object, lookup: Lookup) -> Iterator[Hit]:
    section = lookup.config.admission_fair_sharing if lookup.config is not None else None
    if section is None or not _is_usage_based(queue):
        return
    covered = covered_by(queue)
    sized = sorted(r for r in covered if _is_in_bytes(r))
    for resource in sized if any(map(is_accelerator, covered)) else ():
        weight = section.resource_weights.get(resource, 1.0)
        if weight > LARGEST_WEIGHT_OF_BYTES:
            yield Hit(
                "spec.resourceGroups",
                f"{resource} has weight {weight:g} in admissionFairSharing.resourceWeights, so one "
                "byte counts as much as one device with that weight",
                f"set admissionFairSharing.resourceWeights[{resource}] to 0, or to 1e-9 at most",
            )


def _is_in_bytes(resource: str) -> bool:
    return resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")


@lint_rule(
    "lends-everything",
    kinds=("ClusterQueue", "Cohort"),
    severity=Severity.INFO,
    title="a lending limit of all that there is",
    why="Nothing is kept for the queue's own jobs, though somebody set a limit for that.",
)
def lends_everything(queue: Object, _: Lookup) -> Iterator[Hit]:
    for quota in quotas_of(queue):
        if quota.lending is not None and quota.nominal > ZERO and quota.lending >= quota.nominal:
            yield Hit(
                f"{quota.path}.lendingLimit",
                f"lends {quota.lending} of {quota.nominal} {quota.resource}, which is everything",
                "set it below nominalQuota, or remove it: all is lent without a limit, too",
            )


@lint_rule(
    "accelerator-nodes-without-taint",
    kinds=("ResourceFlavor",),
    severity=Severity.INFO,
    title="nodes with accelerators and without a taint",
    why="Pods that no queue knows run there and use CPU and memory, so that pods with quota find "
    "no room beside free accelerators.",
)
def bare_nodes(flavor: Object, world: LintInput) -> Iterator[Hit]:
    if not needs_nodes(name_of(flavor), world):
        return
    devices = {
        resource
        for queue in world.queues_by_flavor.get(name_of(flavor), ())
        for resource in (q.resource for q in quotas_of(queue) if q.flavor == name_of(flavor))
        if is_accelerator(resource)
    }
    nodes = [node for node in matching_nodes(flavor, world) if _has_any(node, devices)]
    bare = [name_of(node) for node in nodes if not has_taint(node)]
    if bare:
        yield Hit(
            "spec.nodeLabels",
            f"{len(bare)} of {len(nodes)} nodes with {', '.join(sorted(devices))} have no taint, "
            f'such as "{bare[0]}"',
            "taint them (NoSchedule), and add the taint to spec.tolerations or spec.nodeTaints",
        )


def _has_any(node: Object, resources: set[str]) -> bool:
    has = mapping(node, "status", "allocatable")
    return any((quantity(has.get(resource)) or ZERO) > ZERO for resource in resources)


LOCAL = (wildcard, without_section, bytes_like_devices, lends_everything)
WORLD = (resource_quota, bare_nodes)
