"""Rules about annotations: constraints on workers, and constraints of jobs."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.cluster_orders import read_orders
from multiqueue.api.declarations import list_malformed
from multiqueue.api.names import CLUSTER_NAMES, DRAIN, MULTIKUEUE_ORIGIN
from multiqueue.api.validation.access import Object, mapping, text
from multiqueue.lint.finding import Severity
from multiqueue.lint.quotas import absent, missing_severity
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.rules.jobs import QUEUED_KINDS
from multiqueue.lint.world import Lookup, labels_of


@lint_rule(
    "worker-drain-unclear",
    kinds=("MultiKueueCluster",),
    severity=Severity.WARNING,
    title="a drain that cannot be understood",
    why="Nothing new goes to the worker, and nothing that runs there is moved.",
)
def unclear_order(cluster: Object, _: Lookup) -> Iterator[Hit]:
    annotations = mapping(cluster, "metadata", "annotations")
    problem = read_orders({key: text(value) for key, value in annotations.items()}).problem
    if problem:
        yield Hit(
            f"metadata.annotations[{DRAIN}]",
            problem.partition(": ")[2],
            'correct it, or let "multiqueue clusters drain" write it',
        )


@lint_rule(
    "job-cluster-unknown",
    kinds=(*QUEUED_KINDS, "Workload"),
    of_declared=True,
    severity=Severity.WARNING,
    title="a job for a worker that does not exist",
    why="It waits until one of the workers that it names can take it, for ever if there is none.",
)
def unknown_clusters(job: Object, lookup: Lookup) -> Iterator[Hit]:
    if MULTIKUEUE_ORIGIN in labels_of(job):
        return  # a copy: its manager handles its constraints
    wanted = text(mapping(job, "metadata", "annotations").get(CLUSTER_NAMES))
    for name in filter(None, (part.strip() for part in wanted.split(","))):
        if lookup.get("MultiKueueCluster", name) is None:
            yield Hit(
                f"metadata.annotations[{CLUSTER_NAMES}]",
                absent(lookup, "MultiKueueCluster", name),
                "correct the name, or register that worker",
                min(missing_severity(lookup, "MultiKueueCluster"), Severity.WARNING, key=_rank),
            )


def _rank(severity: Severity) -> int:
    return [Severity.INFO, Severity.WARNING, Severity.ERROR].index(severity)


@lint_rule(
    "declaration-malformed",
    kinds=(*QUEUED_KINDS, "Workload", "MultiKueueCluster"),
    of_declared=True,
    severity=Severity.WARNING,
    title="a runtime, speeds, prices or data that cannot be read",
    why="The value is ignored: workers are chosen as if it were not declared.",
)
def malformed(obj: Object, _: Lookup) -> Iterator[Hit]:
    annotations = mapping(obj, "metadata", "annotations")
    said = {key: text(value) for key, value in annotations.items()}
    for name, problem in list_malformed(said):
        yield Hit(f"metadata.annotations[{name}]", problem, "correct it, or leave it out")


LOCAL = (unclear_order, unknown_clusters, malformed)
