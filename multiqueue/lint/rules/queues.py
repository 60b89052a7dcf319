"""Rules about LocalQueues, namespaces, and whether a queue works at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from multiqueue.api.validation.access import Object, items, mapping, text
from multiqueue.lib.selectors import SelectorError, label_selector_from
from multiqueue.lint.finding import Severity
from multiqueue.lint.quotas import absent, missing_severity
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import Lookup, labels_of, name_of, namespace_of


@lint_rule(
    "cluster-queue-missing",
    kinds=("LocalQueue",),
    severity=Severity.ERROR,
    title="a LocalQueue to a ClusterQueue that does not exist",
    why="Its jobs stay suspended (ClusterQueueDoesNotExist).",
)
def cluster_queue_missing(queue: Object, lookup: Lookup) -> Iterator[Hit]:
    name = text(mapping(queue, "spec").get("clusterQueue"))
    if name and lookup.get("ClusterQueue", name) is None:
        yield Hit(
            "spec.clusterQueue",
            absent(lookup, "ClusterQueue", name),
            "create it; the field of an existing LocalQueue cannot be changed",
            missing_severity(lookup, "ClusterQueue"),
        )


@lint_rule(
    "namespace-not-selected",
    kinds=("LocalQueue",),
    severity=Severity.ERROR,
    title="a LocalQueue whose namespace its ClusterQueue does not select",
    why="Its jobs are never admitted (the namespace doesn't match the ClusterQueue selector).",
)
def namespace_not_selected(queue: Object, lookup: Lookup) -> Iterator[Hit]:
    name = text(mapping(queue, "spec").get("clusterQueue"))
    target = lookup.get("ClusterQueue", name)
    if target is None:
        return
    selector = mapping(target, "spec").get("namespaceSelector")
    namespace = namespace_of(queue)
    if selector is None:
        yield Hit(
            "spec.clusterQueue",
            f'ClusterQueue "{name}" has no namespaceSelector, which matches no namespace',
            f'set namespaceSelector in ClusterQueue "{name}"; {{}} matches all',
        )
        return
    labels = _namespace_labels(namespace, lookup)
    if labels is not None and not _matches(selector, labels):
        yield Hit(
            "spec.clusterQueue",
            f'ClusterQueue "{name}" does not select namespace "{namespace}"',
            f"label the namespace ({_wanted(selector)}), or change namespaceSelector",
        )


def _namespace_labels(name: str, lookup: Lookup) -> Mapping[str, str] | None:
    namespace = lookup.get("Namespace", name)
    if namespace is None:
        return None
    return {"kubernetes.io/metadata.name": name, **labels_of(namespace)}


def _matches(selector: object, labels: Mapping[str, str]) -> bool:
    try:
        return label_selector_from(mapping(selector)).matches(labels)
    except SelectorError:
        return True  # validation reports it


def _wanted(selector: object) -> str:
    parts = [f"{k}={v}" for k, v in sorted(mapping(selector, "matchLabels").items())]
    for _, expression in items(mapping(selector).get("matchExpressions")):
        values = ",".join(map(str, expression.get("values") or ()))
        parts.append(f"{expression.get('key')} {expression.get('operator')} {values}".strip())
    return "; ".join(parts)


@lint_rule(
    "selects-no-namespace",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="a ClusterQueue without a namespaceSelector",
    why="As everywhere in Kubernetes, no selector selects nothing, and {} selects everything; "
    "nothing is admitted here.",
)
def selects_nothing(queue: Object, _: Lookup) -> Iterator[Hit]:
    if mapping(queue, "spec").get("namespaceSelector") is None:
        yield Hit(
            "spec.namespaceSelector",
            "is not set, which matches no namespace",
            "set it to {} for all namespaces, or to labels",
        )


@lint_rule(
    "queue-stopped",
    kinds=("ClusterQueue", "LocalQueue"),
    severity=Severity.INFO,
    title="a queue that is stopped",
    why="Jobs pile up in a queue that somebody stopped and forgot.",
)
def stopped(queue: Object, _: Lookup) -> Iterator[Hit]:
    policy = text(mapping(queue, "spec").get("stopPolicy"))
    if policy in {"Hold", "HoldAndDrain"}:
        yield Hit(
            "spec.stopPolicy",
            f"is {policy}: nothing new is admitted",
            "set it to None once the queue shall go on",
        )


@lint_rule(
    "strict-fifo",
    kinds=("ClusterQueue",),
    severity=Severity.INFO,
    title="a queue whose head holds up the rest",
    why="One job that is too large for what is free leaves the rest idle, even jobs of other "
    "flavors and LocalQueues.",
)
def strict_fifo(queue: Object, _: Lookup) -> Iterator[Hit]:
    if mapping(queue, "spec").get("queueingStrategy") == "StrictFIFO":
        yield Hit(
            "spec.queueingStrategy",
            "is StrictFIFO: the first job that does not fit holds up all behind it",
            "use BestEffortFIFO, unless order matters more than use",
        )


@lint_rule(
    "cohort-cycle",
    kinds=("Cohort",),
    severity=Severity.ERROR,
    title="Cohorts that are each other's parents",
    why="All ClusterQueues below a cycle stop: nothing is admitted there.",
)
def cycle(cohort: Object, lookup: Lookup) -> Iterator[Hit]:
    name = name_of(cohort)
    seen, parent = [name], text(mapping(cohort, "spec").get("parentName"))
    while parent and parent not in seen:
        seen.append(parent)
        parent = text(mapping(lookup.get("Cohort", parent), "spec").get("parentName"))
    if parent == name:
        yield Hit(
            "spec.parentName",
            f"is part of a cycle: {' -> '.join([*seen, parent])}",
            "let one of them have another parent, or none",
        )


LOCAL = (
    cluster_queue_missing,
    namespace_not_selected,
    selects_nothing,
    cycle,
    strict_fifo,
    stopped,
)
