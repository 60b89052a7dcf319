"""The drift report's checks beyond objects: rights, credentials, names, servers, hardware."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from multiqueue.api.names import MULTIKUEUE_ORIGIN, QUEUE_NAME
from multiqueue.api.validation.access import Object, has_condition, text
from multiqueue.lint.rules.quota import more_than_nodes
from multiqueue.lint.rules.workers import quota_differs, stopped
from multiqueue.lint.run import lint
from multiqueue.lint.world import LintInput, labels_of, name_of, namespace_of
from multiqueue.projection.report import Drift, DriftReason
from multiqueue.projection.worker_role import Right

ENDS = ("Complete", "Failed", "Finished")
"""Conditions of an ended object: its name is taken, but nothing runs."""


def find_missing_rights(answers: Mapping[Right, bool]) -> Iterator[Drift]:
    """Yield the rights that a manager needs on a worker but does not have."""
    for right in sorted(right for right, allowed in answers.items() if not allowed):
        message = f"the manager may not {right}; apply config/worker-role or bootstrap it again"
        yield Drift(reason=DriftReason.RIGHT_MISSING, name=str(right), message=message)


def find_unserved(wanted: Iterable[str], served: Iterable[str]) -> Iterator[Drift]:
    """Yield the kinds (``jobs.batch/v1``) that a worker does not serve."""
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
    """Yield a drift if credentials end soon; ``what`` names the credential."""
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
    """Yield others' jobs and Workloads whose names our copies would need.

    Args:
        here: The manager's jobs and Workloads.
        there: The worker's jobs and Workloads.
        origin: The origin on the manager's copies.
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
    """Yield (worker, drift) for each MultiKueueCluster whose server another one leads to, too.

    Args:
        identities: The identity of each MultiKueueCluster's server; empty if unknown.
    """
    for name, identity in identities.items():
        others = sorted(
            n for n, i in identities.items() if identity and i == identity and n != name
        )
        if others:
            message = f'it is the same cluster as "{", ".join(others)}"; delete one of the names'
            yield name, Drift(reason=DriftReason.SAME_SERVER, message=message)


def find_own_cluster(identities: Mapping[str, str], own: str) -> Iterator[tuple[str, Drift]]:
    """Yield (worker, drift) for each MultiKueueCluster that is the manager's own cluster.

    Args:
        identities: The identity of each MultiKueueCluster's server; empty if unknown.
        own: The identity of the manager's cluster.
    """
    for name, identity in identities.items():
        if identity and identity == own:
            message = (
                "it is the manager's own cluster, which cannot be a worker; give it the kubeconfig "
                "of another cluster, or delete it"
            )
            yield name, Drift(reason=DriftReason.SAME_SERVER, message=message)


def find_oddities(name: str, manager: LintInput, there: LintInput) -> Iterator[str]:
    """Yield the linter's findings about a worker: hardware, quotas, stopped queues.

    Args:
        name: The worker's name.
        manager: The manager's objects, with this worker among its ``workers``.
        there: The worker's objects, with its Nodes if they could be read.
    """
    for finding in lint(there, (more_than_nodes,)):
        yield f'{finding.kind} "{finding.name}": {finding.what}; {finding.todo}'
    for finding in lint(manager, (quota_differs, stopped)):
        if finding.cluster == "" and f'"{name}"' in finding.what:
            where = f"{finding.namespace}/{finding.name}"
            yield f'{finding.kind} "{where}": {finding.what}; {finding.todo}'
