"""Drift reports: reads all workers at once with the manager's stored credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from multiqueue.cli.connect import ClusterTarget
from multiqueue.cli.errors import CliError
from multiqueue.cli.lint_cluster import read_cluster
from multiqueue.cli.projection.access import (
    AdministratorAccess,
    WorkerError,
    administrator,
    identify,
    stored,
    with_worker,
)
from multiqueue.cli.projection.kind_rights import split_served
from multiqueue.cli.projection.observe import (
    NAMED,
    WORKER_KINDS,
    ManagerView,
    ask_rights,
    read_allowed,
    read_served,
    right_on,
)
from multiqueue.cli.projection.sync import plan_worker
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import KubeError
from multiqueue.lint.world import LintInput
from multiqueue.projection.checks import (
    find_expiry,
    find_missing_rights,
    find_oddities,
    find_own_cluster,
    find_same_servers,
    find_taken_names,
    find_unserved,
)
from multiqueue.projection.report import WorkerReport, add_plan
from multiqueue.projection.worker_role import list_rights
from multiqueue.workers.kubeconfigs.addresses import identify_server

LOOKED_AT = (*WORKER_KINDS, resources.NODES)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyScope:
    """Options of the report.

    Attributes:
        access: The administrators' credentials, which may see more than the manager's.
        expires_within: Credentials that end within this time are a drift.
    """

    access: AdministratorAccess
    manager: ClusterTarget
    namespace: str
    expires_within: timedelta


async def verify_workers(
    client: KubeClient, view: ManagerView, names: Sequence[str], scope: VerifyScope
) -> list[WorkerReport]:
    """Report on workers; an error with one worker is in its report."""
    identities: dict[str, str] = {}
    reports = await asyncio.gather(
        *(_verify(client, view, name, scope, identities) for name in names)
    )
    by_name = {report.worker: report for report in reports}
    own, same = find_own_cluster(identities, view.origin), find_same_servers(identities)
    for name, drift in (*own, *same):
        if name in by_name:
            by_name[name].drift.append(drift)
    return list(reports)


async def _verify(
    client: KubeClient, view: ManagerView, name: str, scope: VerifyScope, identities: dict[str, str]
) -> WorkerReport:
    report = WorkerReport(worker=name)
    cluster = view.world.get("MultiKueueCluster", name) or {}
    try:
        found = await stored(client, cluster, scope.namespace)
        report.expires_at = found.expires_at
        first = found.expiries[0].what if found.expiries else ""
        now = datetime.now(UTC)
        report.drift.extend(find_expiry(first, found.expires_at, now, scope.expires_within))
        credentials = await Credentials.from_kubeconfig_dict(found.config)
        identities[name] = await with_worker(credentials, identify)
        if found.server == identify_server({"server": client.credentials.server}):
            identities[name] = view.origin
        seen = await with_worker(credentials, lambda worker: _look(worker, view, report))
        if scope.access.leads_to(name):
            credentials = await administrator(scope.access, name, scope.manager)
            seen = await with_worker(credentials, _read)
    except (WorkerError, CliError, KubeError) as error:
        report.unknown.append(str(error))
        return report
    add_plan(report, plan_worker(view, name, seen, None))
    report.warnings.extend(find_oddities(name, view.beside({name: seen}), seen))
    return report


async def _look(worker: KubeClient, view: ManagerView, report: WorkerReport) -> LintInput:
    """Check what only the manager's own credentials can show; return what they can read."""
    served = await read_served(worker)
    report.drift.extend(find_unserved(served, [kind for kind, there in served.items() if there]))
    more, unserved = await split_served(worker, view.kinds)
    rights = await ask_rights(worker, (*list_rights(), *more))
    report.drift.extend(find_missing_rights(rights))
    report.warnings.extend(
        f"the worker does not serve {row.plural}.{row.group} in {row.version}: no {row.kind} is "
        "sent there"
        for row in unserved
    )
    if all(rights.get(right_on(kind, "list")) for kind in NAMED):
        there = (await read_cluster(worker, NAMED)).to_world()
        origin = view.config.multi_kueue.origin
        taken = find_taken_names(_named(view.names), _named(there), origin)
        report.drift.extend(taken)
    return await _read(worker)


def _named(world: LintInput) -> list[dict[str, object]]:
    return [dict(obj) for kind in NAMED for obj in world.all(kind.kind)]


async def _read(worker: KubeClient) -> LintInput:
    return (await read_allowed(worker, LOOKED_AT)).to_world()
