"""Syncs workers: read, plan, write, read again. A slow worker does not delay the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from multiqueue.cli.connect import ClusterTarget
from multiqueue.cli.errors import CliError
from multiqueue.cli.lint_cluster import ClusterReading
from multiqueue.cli.projection.access import (
    AdministratorAccess,
    WorkerError,
    administrator,
    identify,
    stored,
    with_worker,
)
from multiqueue.cli.projection.apply import RESOURCES, StepOutcome, carry_out
from multiqueue.cli.projection.observe import (
    WORKER_KINDS,
    ManagerView,
    ask_rights,
    read_allowed,
    right_on,
)
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import KubeError
from multiqueue.lint.world import LintInput
from multiqueue.projection.desired import build_desired
from multiqueue.projection.plan import Options, SyncAction, SyncPlan, make_plan
from multiqueue.projection.report import WorkerReport, add_plan
from multiqueue.projection.worker_role import Right

_VERBS = {SyncAction.CREATE: "create", SyncAction.UPDATE: "patch", SyncAction.DELETE: "delete"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """The user's options for all workers.

    Attributes:
        write: Whether to write; otherwise only the plan is made.
        dry_run: Whether servers only check the writes.
    """

    access: AdministratorAccess
    manager: ClusterTarget
    namespace: str
    force: bool = False
    prune: bool = False
    write: bool = True
    dry_run: bool = False


@dataclass(slots=True, kw_only=True)
class Synced:
    """The result for one worker.

    Attributes:
        error: Why nothing could be done at all.
        warnings: The server's warnings about the written objects.
        after: The drift report afterwards; None if nothing was written.
    """

    worker: str
    plan: SyncPlan = field(default_factory=SyncPlan)
    outcomes: list[StepOutcome] = field(default_factory=list)
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    after: WorkerReport | None = None

    def warn(self, text: str) -> None:
        """Add a warning, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def is_good(self) -> bool:
        """Whether the worker is as declared, or will be."""
        return not (
            self.error
            or self.plan.held
            or self.plan.problems
            or not all(outcome.is_done for outcome in self.outcomes)
            or (self.after is not None and (self.after.drift or self.after.unknown))
        )


async def sync_workers(
    client: KubeClient, view: ManagerView, names: Sequence[str], wanted: SyncRequest
) -> list[Synced]:
    """Sync workers, all at once."""
    return list(await asyncio.gather(*(_sync(client, view, name, wanted) for name in names)))


async def _sync(client: KubeClient, view: ManagerView, name: str, wanted: SyncRequest) -> Synced:
    synced = Synced(worker=name)
    try:
        credentials = await _credentials(client, view, name, wanted)
        await with_worker(
            credentials,
            lambda worker: _work(worker, view, wanted, synced),
            on_warning=synced.warn,
        )
        if wanted.dry_run:
            synced.warnings.clear()  # each object was checked alone, without the ones before it
    except (WorkerError, CliError) as error:
        synced.error = str(error)
    return synced


async def _credentials(
    client: KubeClient, view: ManagerView, name: str, wanted: SyncRequest
) -> Credentials:
    """Return the administrator's credentials for the same worker, or else the manager's.

    Raises:
        WorkerError: there are none, or they lead to another cluster.
    """
    cluster = view.world.get("MultiKueueCluster", name) or {}
    if not wanted.access.leads_to(name):
        found = await stored(client, cluster, wanted.namespace)
        return await Credentials.from_kubeconfig_dict(found.config)
    credentials = await administrator(wanted.access, name, wanted.manager)
    try:
        found = await stored(client, cluster, wanted.namespace)
        managers = await Credentials.from_kubeconfig_dict(found.config)
        known = await with_worker(managers, identify)
    except (WorkerError, KubeError):
        return credentials  # the worker is prepared before the manager can reach it
    if known and await with_worker(credentials, identify) not in {known, ""}:
        raise WorkerError(
            "the administrator's credentials lead to another cluster than the manager's own; "
            "check --worker-context and --worker-kubeconfig"
        )
    return credentials


async def _work(worker: KubeClient, view: ManagerView, wanted: SyncRequest, synced: Synced) -> None:
    kinds = [*WORKER_KINDS, *([resources.WORKLOADS] if wanted.prune else [])]
    there = await read_allowed(worker, kinds)
    synced.plan = plan_worker(view, synced.worker, there.to_world(), wanted)
    if not wanted.write:
        return
    await _refuse_without_rights(worker, synced.plan, there)
    async for outcome in carry_out(worker, synced.plan, force=wanted.force, dry_run=wanted.dry_run):
        synced.outcomes.append(outcome)
    if not wanted.dry_run:
        again = await read_allowed(worker, WORKER_KINDS)
        synced.after = WorkerReport(worker=synced.worker)
        add_plan(synced.after, plan_worker(view, synced.worker, again.to_world(), None))


def plan_worker(
    view: ManagerView, name: str, there: LintInput, wanted: SyncRequest | None
) -> SyncPlan:
    """Return the plan for one worker; without a request, that of a plain sync."""
    desired = build_desired(
        name, manager=view.world, fleet=view.fleet, there=there, origin=view.origin
    )
    force, prune = (wanted.force, wanted.prune) if wanted is not None else (False, False)
    return make_plan(desired, there, Options(origin=view.origin, force=force, prune=prune))


async def _refuse_without_rights(worker: KubeClient, plan: SyncPlan, there: ClusterReading) -> None:
    """Raise now for steps that would be refused one by one.

    Raises:
        WorkerError: names the missing rights.
    """
    needed: set[Right] = set()
    for step in plan.steps:
        resource = RESOURCES[step.obj["kind"]]
        # Applying a missing object needs the right to patch as well.
        needed |= {right_on(resource, verb) for verb in {_VERBS[step.action], "patch"}}
        if step.action is SyncAction.DELETE:
            needed.discard(right_on(resource, "patch"))
    answers = await ask_rights(worker, sorted(needed))
    missing = sorted({right.resource for right, allowed in answers.items() if not allowed})
    if missing or (not plan.steps and there.skipped and plan.held):
        listed = f"write {', '.join(missing)}" if missing else "; ".join(there.skipped)
        raise WorkerError(
            f"these credentials may not do it ({listed}): name those of an administrator with "
            "--worker-context NAME=CONTEXT or --worker-kubeconfig NAME=FILE, or let the manager do "
            "it with config/worker-projection-role"
        )
