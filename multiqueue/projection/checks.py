"""What a drift report says beyond objects: rights, credentials, names, servers, hardware."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from multiqueue.api.names import MULTIKUEUE_ORIGIN, QUEUE_NAME
from multiqueue.api.validation.access import Object, has_condition, text
from multiqueue.lint.rules.quota import MORE_THAN_NODES
from multiqueue.lint.rules.workers import QUOTA_DIFFERS, STOPPED
from multiqueue.lint.run import lint
from multiqueue.lint.world import LintInput, labels_of, name_of, namespace_of
from multiqueue.projection.report import Drift, DriftReason
from multiqueue.projection.worker_role import Right

ENDS = ("Complete", "Failed", "Finished")
"""Conditions of what has ended: its name is taken, but nothing runs."""


def find_missing_rights(answers: Mapping[Right, bool]) -> Iterator[Drift]:
    """Name what a manager does on a worker and may not do there."""
    for right in sorted(right for right, allowed in answers.items() if not allowed):
        message = f"the manager may not {right}; apply config/worker-role or bootstrap it again"
        yield Drift(reason=DriftReason.RIGHT_MISSING, name=str(right), message=message)


def find_unserved(wanted: Iterable[str], served: Iterable[str]) -> Iterator[Drift]:
    """Name kinds (``jobs.batch/v1``) that a worker does not serve."""
    known = frozenset(served)
    for kind in wanted:
        if kind not in known:
            message = (
                f"the worker does not serve {kind}; install multiqueue there, or a Kueue that does"
            )
            yield Drift(reason=DriftReason.KIND_NOT_SERVED, name=kind, message=message)


def find_expiry(
    what: str, expires_at: datetime | None, now: datetime, within: timedelta
) -> Iterator[Drift]:
    """Say that credentials end soon, and ``what`` of them does."""
    if expires_at is not None and expires_at - now < within:
        days = (expires_at - now).days
        when = f"in {days} days" if days > 0 else "within a day"
        yield Drift(
            reason=DriftReason.CREDENTIALS_EXPIRE,
            message=f"the {what} that the manager has ends at {expires_at:%Y-%m-%dT%H:%M:%SZ}, "
            f"{when}; renew it with bootstrap --rotate",
        )


def find_taken_names(
    here: Iterable[Object], there: Iterable[Object], origin: str
) -> Iterator[Drift]:
    """Name jobs and Workloads of others whose names would be those of our copies.

    Args:
        here: Jobs and Workloads of the manager.
        there: Those of the worker.
        origin: What the manager's copies carry as their origin.
    """
    ours = {
        _key(obj)
        for obj in here
        if not _ended(obj) and (obj.get("kind") == "Workload" or QUEUE_NAME in labels_of(obj))
    }
    for obj in there:
        if _key(obj) in ours and labels_of(obj).get(MULTIKUEUE_ORIGIN) != origin:
            kind, namespace, name = _key(obj)
            yield Drift(
                reason=DriftReason.NAME_TAKEN,
                message="is somebody else's; the one of that name here can never be sent to this "
                "worker: rename one of the two",
                kind=kind,
                namespace=namespace,
                name=name,
            )


def _key(obj: Object) -> tuple[str, str, str]:
    return text(obj.get("kind")), namespace_of(obj), name_of(obj)


def _ended(obj: Object) -> bool:
    return any(has_condition(obj, type_) for type_ in ENDS)


def find_same_servers(identities: Mapping[str, str]) -> Iterator[tuple[str, Drift]]:
    """Yield (worker, drift) for each name of a server that has several.

    Args:
        identities: MultiKueueCluster -> what its server is; empty where it does not tell.
    """
    for name, identity in identities.items():
        others = sorted(
            n for n, i in identities.items() if identity and i == identity and n != name
        )
        if others:
            message = f'it is the same cluster as "{", ".join(others)}"; delete one of the names'
            yield name, Drift(reason=DriftReason.SAME_SERVER, message=message)


def find_own_cluster(identities: Mapping[str, str], own: str) -> Iterator[tuple[str, Drift]]:
    """Yield (worker, drift) for each name that leads to the manager's own cluster.

    Args:
        identities: MultiKueueCluster -> what its server is; empty where it does not tell.
        own: What the manager's is.
    """
    for name, identity in identities.items():
        if identity and identity == own:
            message = (
                "it is the manager's own cluster, which cannot be a worker; give it the kubeconfig "
                "of another cluster, or delete it"
            )
            yield name, Drift(reason=DriftReason.SAME_SERVER, message=message)


def find_oddities(name: str, manager: LintInput, there: LintInput) -> Iterator[str]:
    """Say what linter rules find about a worker: hardware, quotas, stopped queues.

    Args:
        name: Of the worker.
        manager: The manager's objects, this worker among its ``workers``.
        there: The worker's objects, Nodes too where they could be read.
    """
    for finding in lint(there, (MORE_THAN_NODES,)):
        yield f'{finding.kind} "{finding.name}": {finding.what}; {finding.todo}'
    for finding in lint(manager, (QUOTA_DIFFERS, STOPPED)):
        if finding.cluster == "" and f'"{name}"' in finding.what:
            where = f"{finding.namespace}/{finding.name}"
            yield f'{finding.kind} "{where}": {finding.what}; {finding.todo}'
