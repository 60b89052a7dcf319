"""Rules about queued jobs of every kind: whether their queue can ever admit them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.api.names import JOB_MIN_PARALLELISM, PRIORITY_CLASS
from multiqueue.api.validation.access import Object, items, mapping, text
from multiqueue.api.validation.unqueued import LABEL, find_unqueued
from multiqueue.jobs.reading import JobPodSet, is_over, read_pod_sets
from multiqueue.jobs.setup import enabled_frameworks
from multiqueue.lib.amount import UNLIMITED
from multiqueue.lib.digits import is_number
from multiqueue.lint.finding import Severity
from multiqueue.lint.nodes import tolerates
from multiqueue.lint.quotas import (
    absent,
    cohort_of,
    covered_by,
    missing_severity,
    queue_label,
    queue_of_job,
    quotas_of,
    requests_of,
)
from multiqueue.lint.rule import Check, Hit, LintRule, W, lint_rule
from multiqueue.lint.world import Lookup, Sight, labels_of, namespace_of
from multiqueue.model.resources import amount_of, format_amount

CONTAINERS = "spec.containers"
"""The containers in a pod template."""
QUEUED_KINDS = tuple(row.kind for row in JOB_KINDS if row.folder)


def of_queued(check: Check[W]) -> Check[W]:
    """Run a check only for jobs that name a queue and have not ended."""

    def guarded(job: Object, lookup: W) -> Iterator[Hit]:
        if queue_label(job) and not is_over(job):
            yield from check(job, lookup)

    return guarded


def job_rule(
    id_: str, *, severity: Severity, title: str, why: str, at_admission: bool = True
) -> Callable[[Check[W]], LintRule[W]]:
    """Make a rule about queued jobs of every kind of the function below."""
    make: Callable[[Check[W]], LintRule[W]] = lint_rule(
        id_,
        kinds=QUEUED_KINDS,
        severity=severity,
        title=title,
        why=why,
        at_admission=at_admission,
        of_declared=True,
    )
    return lambda check: make(of_queued(check))


@job_rule(
    "job-queue-missing",
    severity=Severity.ERROR,
    title="a job whose LocalQueue does not exist",
    why="The job is suspended and waits for a queue that may never come.",
    at_admission=False,
)
def queue_missing(job: Object, lookup: Lookup) -> Iterator[Hit]:
    name, namespace = queue_label(job), namespace_of(job)
    is_other = lookup.get("ClusterQueue", name) is not None
    if lookup.get("LocalQueue", name, namespace) is not None:
        return
    if lookup.sight("LocalQueue") is Sight.NONE and not is_other:
        return
    what = f'{absent(lookup, "LocalQueue", name)} in namespace "{namespace}"'
    todo = "create it there, or correct the label"
    if is_other:
        what = f'names ClusterQueue "{name}", but the label is for a LocalQueue; {what}'
        todo = f"name a LocalQueue of the namespace that leads to {name}; kubectl get localqueues"
    yield Hit(LABEL, what, todo, missing_severity(lookup, "LocalQueue"))


@job_rule(
    "job-priority-class-missing",
    severity=Severity.ERROR,
    title="a job whose WorkloadPriorityClass does not exist",
    why="The job stays suspended until the class exists.",
)
def priority_missing(job: Object, lookup: Lookup) -> Iterator[Hit]:
    name = labels_of(job).get(PRIORITY_CLASS, "")
    kind = "WorkloadPriorityClass"
    if name and lookup.sight(kind) is not Sight.NONE and lookup.get(kind, name) is None:
        yield Hit(
            f"metadata.labels[{PRIORITY_CLASS}]",
            absent(lookup, kind, name),
            "create it, or correct the label",
            missing_severity(lookup, kind),
        )


@job_rule(
    "job-resource-not-covered",
    severity=Severity.ERROR,
    title="a job that requests what its queue has no quota for",
    why="It is never admitted, whatever else is free.",
)
def uncovered(job: Object, lookup: Lookup) -> Iterator[Hit]:
    queue = queue_of_job(job, lookup)
    if queue is None:
        return
    config = lookup.config
    excluded: tuple[str, ...] = ()
    if config is not None:
        if config.resources.quota_check_strategy == "IgnoreUndeclared":
            return
        transformed = [rule.input for rule in config.resources.transformations]
        excluded = (*config.resources.exclude_resource_prefixes, *transformed)
    covered = covered_by(queue)
    for pods, resource in _requested(job):
        if resource not in covered and not resource.startswith(excluded):
            yield Hit(
                pods.at(CONTAINERS),
                f'requests {resource}, for which ClusterQueue "{_name(queue)}" has no quota',
                "add it to coveredResources with a quota, or drop the request",
            )


def _requested(job: Object) -> Iterator[tuple[JobPodSet, str]]:
    for pods in read_pod_sets(job):
        for resource in sorted(requests_of(pods.template)):
            yield pods, resource


def _name(queue: Object) -> str:
    return text(mapping(queue, "metadata").get("name"))


@job_rule(
    "job-request-missing",
    severity=Severity.INFO,
    title="a job without a request for a resource that has quota",
    why="It counts as 0: any number of such jobs is admitted, and they share what is left.",
)
def request_missing(job: Object, lookup: Lookup) -> Iterator[Hit]:
    queue = queue_of_job(job, lookup)
    if queue is None:
        return
    counted = covered_by(queue) & {"cpu", "memory"}
    for pods in read_pod_sets(job):
        for resource in sorted(counted - requests_of(pods.template).keys()):
            yield Hit(
                pods.at(CONTAINERS),
                f'requests no {resource}, for which ClusterQueue "{_name(queue)}" has quota',
                "set requests on the containers, or a defaultRequest in a LimitRange",
            )


@job_rule(
    "job-too-large",
    severity=Severity.ERROR,
    title="a job that needs more than its queue can ever give",
    why="All of its pods start together and on one flavor; it is never admitted.",
)
def too_large(job: Object, lookup: Lookup) -> Iterator[Hit]:
    queue = queue_of_job(job, lookup)
    if queue is None:
        return
    most = _most(queue)
    for pods, resource in _requested(job):
        amount, count = requests_of(pods.template)[resource], _fewest(job, pods)
        if resource in most and count * amount > most[resource]:
            yield Hit(
                pods.at(CONTAINERS),
                f"needs {format_amount(resource, count * amount)} {resource} ({count} pods); "
                f'ClusterQueue "{_name(queue)}" gives at most '
                f"{format_amount(resource, most[resource])} of one flavor",
                "ask for less, set job-min-parallelism, or raise the quota or borrowingLimit",
            )


def _fewest(job: Object, pods: JobPodSet) -> int:
    """Return how many pods must start together: partial admission may start fewer than wanted."""
    minimum = text(mapping(job, "metadata", "annotations").get(JOB_MIN_PARALLELISM))
    return min(pods.count, int(minimum)) if is_number(minimum) else pods.count


def _most(queue: Object) -> Mapping[str, int]:
    """Return the most that one job can ever get of each resource, in one flavor."""
    most: dict[str, int] = {}
    for quota in quotas_of(queue):
        amount = amount_of(quota.resource, quota.nominal)
        if cohort_of(queue):
            limit = quota.borrowing
            amount = amount + amount_of(quota.resource, limit) if limit is not None else UNLIMITED
        most[quota.resource] = max(most.get(quota.resource, 0), amount)
    return most


@job_rule(
    "job-no-flavor",
    severity=Severity.ERROR,
    title="a job that no flavor of its queue suits",
    why="Its nodeSelector or missing tolerations exclude every flavor: it is never admitted.",
)
def no_flavor(job: Object, lookup: Lookup) -> Iterator[Hit]:
    queue = queue_of_job(job, lookup)
    if queue is None:
        return
    for pods in read_pod_sets(job):
        yield from _flavors_refuse(pods, queue, lookup)


def _flavors_refuse(pods: JobPodSet, queue: Object, lookup: Lookup) -> Iterator[Hit]:
    pod = mapping(pods.template, "spec")
    for i, group in items(mapping(queue, "spec").get("resourceGroups")):
        covered = {*map(str, group.get("coveredResources") or ())}
        if not requests_of(pods.template).keys() & covered:
            continue
        names = [text(f.get("name")) for _, f in items(group.get("flavors"))]
        flavors = [lookup.get("ResourceFlavor", name) for name in names]
        keys = {key for f in flavors for key in mapping(f, "spec", "nodeLabels")}
        refusals = [_refusal(pod, flavor, keys) if flavor is not None else "" for flavor in flavors]
        if refusals and all(refusals):
            yield Hit(
                pods.at("spec"),
                f'no flavor of resourceGroups[{i}] of ClusterQueue "{_name(queue)}" suits it: '
                + "; ".join(f"{n}: {why}" for n, why in zip(names, refusals, strict=True)),
                "change nodeSelector or tolerations, or add such a flavor",
            )


def _refusal(pod: Object, flavor: Object, keys: set[str]) -> str:
    """Return why a job's pods cannot use a flavor; only labels that flavors use count (E-50)."""
    spec = mapping(flavor, "spec")
    labels = mapping(spec, "nodeLabels")
    for key, value in sorted(mapping(pod, "nodeSelector").items()):
        if key in keys and labels.get(key) != value:
            return f"{key} is {labels.get(key, 'not set')}, not {value}"
    tolerations = [t for holder in (pod, spec) for _, t in items(holder.get("tolerations"))]
    for _, taint in items(spec.get("nodeTaints")):
        bars = taint.get("effect") in {"NoSchedule", "NoExecute"}
        if bars and not any(tolerates(t, taint) for t in tolerations):
            return f"taint {taint.get('key')} is not tolerated"
    return ""


@lint_rule(
    "kind-not-queued",
    kinds=tuple(row.kind for row in JOB_KINDS if row.kind != "Job"),
    of_declared=True,
    severity=Severity.ERROR,
    title="an object that names a queue and is of a kind that is not queued",
    why="Its author believes that it waits for quota; it takes nodes that quotas count as free.",
    at_admission=False,
)
def not_queued(obj: Object, lookup: Lookup) -> Iterator[Hit]:
    config = lookup.config
    found = find_unqueued(obj, None if config is None else enabled_frameworks(config))
    if found is not None:
        yield Hit(LABEL, found.what, found.todo)


LOCAL = (
    not_queued,
    queue_missing,
    priority_missing,
    uncovered,
    too_large,
    no_flavor,
    request_missing,
)
