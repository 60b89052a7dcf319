"""Rules about pods of jobs: limits, checkpoints, budgets, Jobs without a queue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from multiqueue.api.declarations import ON_NOTICE
from multiqueue.api.names import (
    CHECKPOINT_HOOK,
    CHECKPOINT_ON,
    CHECKPOINT_SECONDS,
    DEFAULT_QUEUE,
    DISRUPTION_POLICY,
    JOB_MIN_PARALLELISM,
    QUEUE_NAME,
)
from multiqueue.api.validation.access import Object, items, mapping, number, strings, text
from multiqueue.api.validation.pod_sets import iterate_resources
from multiqueue.jobs.reading import JobPodSet, is_over, read_pod_sets
from multiqueue.lib.digits import is_number
from multiqueue.lib.selectors import SelectorError, label_selector_from
from multiqueue.lint.finding import Severity
from multiqueue.lint.quotas import cohort_of, queue_label, queue_of_job
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.rules.jobs import CONTAINERS, QUEUED_KINDS, job_rule, of_queued
from multiqueue.lint.world import (
    LintInput,
    Lookup,
    Sight,
    declared_kinds,
    labels_of,
    name_of,
    namespace_of,
)
from multiqueue.model.resources import is_extended
from multiqueue.model.surroundings import (
    NamespaceSurroundings,
    adjust_template,
    find_broken_limits,
    summarize_limit_ranges,
)

_GRACE_SECONDS = 30
"""Kubernetes' default grace period of a pod."""
_SLEEP = re.compile(r"\bsleep\s+(\d{1,9})(?:s\b|\b)")


@job_rule(
    "job-extended-resource-limit",
    severity=Severity.WARNING,
    title="an extended resource that is requested without a limit",
    why="Kubernetes refuses such pods and Jobs.",
    at_admission=False,
)
def extended_limits(job: Object, _: Lookup) -> Iterator[Hit]:
    for pods in read_pod_sets(job):
        pod = mapping(pods.template, "spec")
        for path, resources in iterate_resources(pod, pods.at("spec")):
            limits = mapping(resources, "limits")
            for name in sorted(mapping(resources, "requests")):
                if is_extended(name) and name not in limits:
                    yield Hit(
                        f"{path}.limits",
                        f"requests {name} without a limit",
                        f"set limits[{name}] to the same amount",
                    )


@job_rule(
    "job-pod-priority",
    severity=Severity.WARNING,
    title="a priority of pods that no PriorityClass gives them",
    why="Kubernetes computes the priority of a pod from its PriorityClass and creates no pod that "
    "sets another. Such a Job is not queued, unless the default PriorityClass has that value.",
)
def pod_priority(job: Object, _: Lookup) -> Iterator[Hit]:
    for pods in read_pod_sets(job):
        pod = mapping(pods.template, "spec")
        if number(pod.get("priority"), 0) and not pod.get("priorityClassName"):
            yield Hit(
                pods.at("spec.priority"),
                f"is {pod['priority']}, without a PriorityClass",
                f"remove it, and name a PriorityClass in {pods.at('spec.priorityClassName')}",
            )


@lint_rule(
    "job-min-parallelism",
    kinds=("Job",),
    severity=Severity.ERROR,
    title="a minimum of pods that is not below their number",
    why="Partial admission starts fewer pods than asked for; with this minimum it cannot, and the "
    "Job is refused.",
    at_admission=False,
)
@of_queued
def min_parallelism(job: Object, _: Lookup) -> Iterator[Hit]:
    value = text(mapping(job, "metadata", "annotations").get(JOB_MIN_PARALLELISM))
    spec = mapping(job, "spec")
    parallelism = number(spec.get("parallelism"), 1)
    pods = min(parallelism, number(spec.get("completions"), parallelism))
    if is_number(value) and not 0 < int(value) < pods:
        yield Hit(
            f"metadata.annotations[{JOB_MIN_PARALLELISM}]",
            f"is {value}, for {pods} pods",
            "set it to 1 or more and less than parallelism, or remove it",
        )


@job_rule(
    "checkpoint-exceeds-grace",
    severity=Severity.WARNING,
    title="a checkpoint that takes longer than the grace period",
    why="A preempted pod gets SIGTERM, then SIGKILL when the grace period ends, hooks included: "
    "the checkpoint is cut off and the work since the last one is lost.",
)
def grace(job: Object, _: Lookup) -> Iterator[Hit]:
    for pods in read_pod_sets(job):
        pod = mapping(pods.template, "spec")
        grace = number(pod.get("terminationGracePeriodSeconds"), _GRACE_SECONDS)
        for path, seconds, what in _saving(job, pods):
            if seconds >= grace:
                yield Hit(
                    path,
                    f"{what} {seconds} s; the pods are killed after {grace} s",
                    f"set terminationGracePeriodSeconds to more than {seconds}",
                )


def _saving(job: Object, pods: JobPodSet) -> Iterator[tuple[str, int, str]]:
    """Yield (path, seconds, words) for each field that says how long pods need to end cleanly."""
    annotation = f"metadata.annotations[{CHECKPOINT_SECONDS}]"
    saves_before = mapping(job, "metadata", "annotations").get(CHECKPOINT_ON) == ON_NOTICE
    holders = () if saves_before else ((annotation, job), (pods.at(annotation), pods.template))
    for path, holder in holders:
        value = text(mapping(holder, "metadata", "annotations").get(CHECKPOINT_SECONDS))
        if is_number(value):
            yield path, int(value), "saving a checkpoint takes"
    for i, container in items(mapping(pods.template, "spec").get("containers")):
        hook = mapping(container, "lifecycle", "preStop")
        command = " ".join(strings(mapping(hook, "exec").get("command")))
        sleeps = [int(match) for match in _SLEEP.findall(command)]
        seconds = number(mapping(hook, "sleep").get("seconds")) or sum(sleeps)
        if seconds:
            yield f"{pods.at(CONTAINERS)}[{i}].lifecycle.preStop", seconds, "the hook sleeps"


@job_rule(
    "checkpoint-hook-unused",
    severity=Severity.WARNING,
    title="a checkpoint hook that nobody posts to",
    why="The job is stopped, and its hook was never told to save the work.",
)
def unused_hook(job: Object, world: LintInput) -> Iterator[Hit]:
    annotations = mapping(job, "metadata", "annotations")
    path = f"metadata.annotations[{CHECKPOINT_HOOK}]"
    if not annotations.get(CHECKPOINT_HOOK):
        return
    if annotations.get(CHECKPOINT_ON) != ON_NOTICE:
        what = "the job gets no notices, so nothing is posted"
        yield Hit(path, what, f"set the annotation {CHECKPOINT_ON}: {ON_NOTICE}, too")
        return
    queue = queue_of_job(job, world)
    if queue is None:
        return
    name = _policy_of(queue, world)
    policy = world.get("DisruptionPolicy", name) if name else None
    if name and policy is None and world.sight("DisruptionPolicy") is not Sight.ALL:
        return
    if mapping(policy, "spec", "notice").get("hooks") is not True:
        of = f'ClusterQueue "{name_of(queue)}"'
        what = f"{of} has no DisruptionPolicy"
        if policy is not None:
            what = f'DisruptionPolicy "{name}" of {of} posts nothing'
        yield Hit(path, what, "set spec.notice.hooks: true in the policy of that ClusterQueue")


def _policy_of(queue: Object, world: LintInput) -> str:
    """Return the DisruptionPolicy that a ClusterQueue or the nearest Cohort above it names."""
    holder, seen = queue, set[str]()
    while True:
        named = text(mapping(holder, "metadata", "annotations").get(DISRUPTION_POLICY)).strip()
        above = cohort_of(holder)
        if named or not above or above in seen:
            return named
        seen.add(above)
        holder = world.get("Cohort", above) or {}


@job_rule(
    "job-limit-range",
    severity=Severity.ERROR,
    title="a Job whose pods a LimitRange forbids",
    why="The Job is not admitted, since its pods could not be created.",
)
def limit_ranges(job: Object, world: LintInput) -> Iterator[Hit]:
    namespace = namespace_of(job)
    ranges = [r for r in world.all("LimitRange") if namespace_of(r) == namespace]
    around = NamespaceSurroundings(limits=summarize_limit_ranges(ranges))
    for pods in read_pod_sets(job):
        template = adjust_template(pods.template, around)
        for problem in find_broken_limits(template, around):
            where = pods.at(CONTAINERS)
            yield Hit(where, problem, "change the request or limit, or the LimitRange")


@lint_rule(
    "budget-blocks-eviction",
    kinds=("PodDisruptionBudget",),
    severity=Severity.WARNING,
    title="a PodDisruptionBudget that forbids all disruption of queued Jobs",
    why="Whatever evicts pods (node drains, autoscalers, preemption by the scheduler) is held up "
    "until the Job ends. Preemption by the queue deletes pods without asking the budget, so "
    "it gives no protection there.",
)
def budget(budget: Object, world: LintInput) -> Iterator[Hit]:
    spec = mapping(budget, "spec")
    field = _allows_nothing(spec)
    if not field:
        return
    try:
        selector = label_selector_from(mapping(spec, "selector"))
    except SelectorError:
        return
    namespace = namespace_of(budget)
    kinds = (*QUEUED_KINDS, *declared_kinds())
    for job in (job for kind in kinds for job in world.all(kind)):
        mine = namespace_of(job) == namespace and queue_label(job) and not is_over(job)
        if mine and any(selector.matches(labels_of(p.template)) for p in read_pod_sets(job)):
            yield Hit(
                f"spec.{field}",
                f'allows no disruption of the pods of {job["kind"]} "{name_of(job)}"',
                "let it allow at least one, or leave queued Jobs out of its selector",
            )


def _allows_nothing(spec: Mapping[str, object]) -> str:
    if str(spec.get("maxUnavailable")) in {"0", "0%"}:
        return "maxUnavailable"
    return "minAvailable" if spec.get("minAvailable") == "100%" else ""


@lint_rule(
    "job-without-queue",
    kinds=("Job",),
    severity=Severity.WARNING,
    title="a Job without a queue in a namespace that has queues",
    why="It takes nodes that quotas count as free (or, with manageJobsWithoutQueueName, it never "
    "starts).",
)
def without_queue(job: Object, world: LintInput) -> Iterator[Hit]:
    owners = items(mapping(job, "metadata").get("ownerReferences"))
    if queue_label(job) or is_over(job) or any(o.get("controller") for _, o in owners):
        return
    namespace = namespace_of(job)
    queues = [name_of(q) for q in world.all("LocalQueue") if namespace_of(q) == namespace]
    if not queues or DEFAULT_QUEUE in queues or not _is_managed(namespace, world):
        return
    strict = world.config is not None and world.config.manage_jobs_without_queue_name
    yield Hit(
        f"metadata.labels[{QUEUE_NAME}]",
        "the Job names no queue, "
        + ("and is suspended for that" if strict else "and runs outside of all quotas"),
        f"set the label, for example to {queues[0]}",
        Severity.ERROR if strict else None,
    )


def _is_managed(namespace: str, world: LintInput) -> bool:
    if world.config is None:
        return True
    labels = {
        "kubernetes.io/metadata.name": namespace,
        **labels_of(world.get("Namespace", namespace) or {}),
    }
    return label_selector_from(world.config.jobs_namespace_selector).matches(labels)


LOCAL = (extended_limits, pod_priority, min_parallelism, grace)
WORLD = (unused_hook, limit_ranges, budget, without_queue)
