"""Rules about workers: whether they have the queues and quotas for the manager's jobs."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.names import MULTIKUEUE_CONTROLLER
from multiqueue.api.validation.access import Object, mapping, strings, text
from multiqueue.lint.finding import Severity
from multiqueue.lint.quotas import ZERO, checks_of, cohort_of, covered_by, quotas_of
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import LintInput, Lookup, Sight, flavors_of, name_of, namespace_of


def workers_of(queue: Object, lookup: Lookup) -> list[str]:
    """Return the workers to which a ClusterQueue's jobs may be sent."""
    for _, rule in checks_of(queue):
        check = mapping(lookup.get("AdmissionCheck", text(rule.get("name"))), "spec")
        if check.get("controllerName") == MULTIKUEUE_CONTROLLER:
            name = text(mapping(check, "parameters").get("name"))
            config = lookup.get("MultiKueueConfig", name)
            return list(strings(mapping(config, "spec").get("clusters")))
    return []


@lint_rule(
    "worker-queue-missing",
    kinds=("LocalQueue",),
    severity=Severity.ERROR,
    title="a worker without the namespace or the queue",
    why="A job is sent to the namespace and LocalQueue of the same names; that worker can never "
    "take it, and jobs that fit only there wait for ever.",
)
def queue_missing(queue: Object, world: LintInput) -> Iterator[Hit]:
    namespace, name = namespace_of(queue), name_of(queue)
    for worker, remote in _remotes(queue, world):
        unknown_namespace = (
            remote.sight("Namespace") is not Sight.NONE
            and remote.get("Namespace", namespace) is None
        )
        if unknown_namespace:
            yield Hit(
                "metadata.namespace",
                f'worker "{worker}" has no namespace "{namespace}"',
                "create it there, with a LocalQueue of the same name",
            )
        elif remote.get("LocalQueue", name, namespace) is None:
            yield Hit(
                "metadata.name",
                f'worker "{worker}" has no LocalQueue "{name}" in namespace "{namespace}"',
                "create it there",
            )
        elif _target(queue, remote) is None:
            yield Hit(
                "metadata.name",
                f'worker "{worker}": LocalQueue "{namespace}/{name}" leads to no ClusterQueue',
                "create the ClusterQueue there",
            )


def _remotes(queue: Object, world: LintInput) -> Iterator[tuple[str, LintInput]]:
    target = world.get("ClusterQueue", text(mapping(queue, "spec").get("clusterQueue")))
    for worker in workers_of(target or {}, world):
        if worker in world.workers:
            yield worker, world.workers[worker]


def _target(queue: Object, remote: LintInput) -> Object | None:
    """Return the ClusterQueue of the LocalQueue of the same name on a worker."""
    local = remote.get("LocalQueue", name_of(queue), namespace_of(queue))
    return remote.get("ClusterQueue", text(mapping(local, "spec").get("clusterQueue")))


@lint_rule(
    "worker-quota-differs",
    kinds=("LocalQueue",),
    severity=Severity.WARNING,
    title="a worker whose quotas or flavors do not go with the manager's",
    why="The manager reserves quota for jobs that no worker admits; they hold it while they wait.",
)
def quota_differs(queue: Object, world: LintInput) -> Iterator[Hit]:
    here = world.get("ClusterQueue", text(mapping(queue, "spec").get("clusterQueue")))
    if here is None:
        return
    for worker, remote in _remotes(queue, world):
        there = _target(queue, remote)
        if there is None:
            continue
        where = f'worker "{worker}": ClusterQueue "{name_of(there)}"'
        lacking = sorted(covered_by(here) - covered_by(there))
        if lacking:
            todo = "add them there, or jobs that request them go to other workers only"
            yield Hit("spec.clusterQueue", f"{where} does not cover {', '.join(lacking)}", todo)
        for resource in sorted(covered_by(here) & covered_by(there)):
            if _is_zero(there, resource):
                what = f"{where} has quota 0 for {resource}, and no cohort"
                yield Hit("spec.clusterQueue", what, "raise nominalQuota there")
        flavors = [{text(f.get("name")) for _, f in flavors_of(q)} for q in (here, there)]
        if flavors[0] and flavors[1] and not flavors[0] & flavors[1]:
            yield Hit(
                "spec.clusterQueue",
                f"{where} has none of the flavors here: {', '.join(sorted(flavors[1]))}",
                "use the same names for the same hardware",
                Severity.INFO,
            )


def _is_zero(queue: Object, resource: str) -> bool:
    nominal = [q.nominal for q in quotas_of(queue) if q.resource == resource]
    return not cohort_of(queue) and all(amount == ZERO for amount in nominal)


@lint_rule(
    "worker-queue-stopped",
    kinds=("LocalQueue",),
    severity=Severity.WARNING,
    title="a queue that is stopped on a worker",
    why="Copies of jobs wait there, and may hold up those that another worker could run.",
)
def stopped(queue: Object, world: LintInput) -> Iterator[Hit]:
    for worker, remote in _remotes(queue, world):
        local = remote.get("LocalQueue", name_of(queue), namespace_of(queue))
        for there in (local, _target(queue, remote)):
            policy = text(mapping(there, "spec").get("stopPolicy"))
            if there is not None and policy in {"Hold", "HoldAndDrain"}:
                yield Hit(
                    "spec.clusterQueue",
                    f'worker "{worker}": {there["kind"]} "{name_of(there)}" is stopped ({policy})',
                    "set its stopPolicy to None once the worker shall take jobs",
                )


WORLD = (queue_missing, quota_differs, stopped)
