"""What the leader does for declared kinds: reconciles their jobs, writes the JobKinds' status."""

from __future__ import annotations

import asyncio

import structlog

from multiqueue.api.conditions import ACTIVE, HEALTHY, set_condition
from multiqueue.api.serde import encode
from multiqueue.api.v1alpha1 import JobKind, JobKindStatus
from multiqueue.api.workload_state import is_finished
from multiqueue.controllers.declared.catalog import Declaration, DeclaredKinds
from multiqueue.controllers.declared.rights import MISSING_RIGHTS_SECONDS, find_missing_rights
from multiqueue.controllers.finalizer import sync_finalizer
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.declared.compiled import JobKindReason
from multiqueue.jobs.framework.job_source import SingleObjects
from multiqueue.jobs.framework.reconciler import JobReconciler
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.backoff import Backoff
from multiqueue.kube.errors import Forbidden
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import JOB_KINDS
from multiqueue.kube.status_writes import write_status

ACCEPTED = "Accepted"
IN_USE_SECONDS = 5.0
"""How often a JobKind under deletion is asked whether its jobs have ended."""
RESTART_SECONDS = 1.0
MAX_RESTART_SECONDS = 60.0

Verdict = tuple[bool, JobKindReason, str]

log = structlog.get_logger("multiqueue.jobs")


class DeclaredJobs:
    """Runs the job reconciler of each declared kind, and the reconciler of JobKinds.

    Args:
        context: The manager's context.
        kinds: The declared kinds.
        dispatches: Whether this program sends Workloads to workers.
    """

    name = "declared-jobs"

    def __init__(self, context: ManagerContext, kinds: DeclaredKinds, *, dispatches: bool) -> None:
        self._context = context
        self._kinds = kinds
        self._dispatches = dispatches
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, tuple[JobReconciler, asyncio.Task[None]]] = {}
        self._read: dict[str, int] = {}
        self._reconciler = Reconciler(self.name, self.reconcile, metrics=context.metrics)
        context.integrations.add_listener(on_added=self._on_added, on_removed=self._on_removed)
        kinds.on_change = self._reconciler.queue.add

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for kind in self._context.integrations.kinds:
                    self._on_added(kind)
                for job_kind in self._context.informers.job_kinds.store.list():
                    self._reconciler.queue.add(job_kind.metadata.name)
                await self._reconciler.run()
        finally:
            self._tasks = None
            for jobs, _ in self._running.values():
                jobs.detach()
            self._running.clear()

    # ------------------------------------------------------------ jobs

    def _on_added(self, kind: SupportedKind) -> None:
        name = kind.integration.name
        if self._tasks is None or not kind.is_declared or name in self._running:
            return
        jobs = JobReconciler(self._context, kind.integration, dispatches=self._dispatches)
        task = self._tasks.create_task(self._keep(jobs), name=jobs.name)
        self._running[name] = (jobs, task)

    def _on_removed(self, kind: SupportedKind) -> None:
        found = self._running.pop(kind.integration.name, None)
        if found is not None:
            found[1].cancel()
            found[0].detach()

    async def _keep(self, jobs: JobReconciler) -> None:
        """Run a reconciler, and again if it fails; other kinds are not affected."""
        backoff = Backoff(base=RESTART_SECONDS, cap=MAX_RESTART_SECONDS)
        while True:
            try:
                await jobs.run()
            except Exception:
                log.exception(
                    "reconciler of a declared kind failed and starts again", name=jobs.name
                )
                self._context.metrics.component_restarts_total.child(self.name).inc()
            await asyncio.sleep(backoff.next())

    # ------------------------------------------------------------ JobKinds

    async def reconcile(self, name: str) -> Result:
        """Write finalizer and status of one JobKind, and read its jobs anew if it changed."""
        job_kind = self._context.informers.job_kinds.store.get(name)
        declaration = self._kinds.find(name)
        if job_kind is None or declaration is None:
            self._read.pop(name, None)
            return DONE
        self._read_again(name, declaration)
        in_use = self._is_in_use(declaration)
        if await sync_finalizer(self._context.client, JOB_KINDS, job_kind, in_use=in_use):
            return DONE
        if job_kind.metadata.deletion_timestamp:
            return Result(requeue_after=IN_USE_SECONDS)
        missing = ""
        if declaration.integration is not None and declaration.refusal is None:
            missing = await find_missing_rights(self._context.client, job_kind.spec)
        await self._write(job_kind, declaration, missing)
        is_active = declaration.is_queued and not missing
        return DONE if is_active else Result(requeue_after=MISSING_RIGHTS_SECONDS)

    def _read_again(self, name: str, declaration: Declaration) -> None:
        """Reconcile all jobs of a kind whose expressions were exchanged."""
        known = self._read.get(name)
        self._read[name] = declaration.generation
        if declaration.kind is None or known in {None, declaration.generation}:
            return
        running = self._running.get(declaration.kind.integration.name)
        if running is not None:
            running[0].reconcile_all()

    def _is_in_use(self, declaration: Declaration) -> bool:
        """Whether a job of the kind has a Workload that has not finished."""
        if declaration.kind is None or declaration.informer is None:
            return False
        source = SingleObjects(self._context, declaration.kind.integration)
        return any(
            not is_finished(workload.status)
            for job in declaration.informer.store.list()
            for workload in source.list_workloads(job)
        )

    async def _write(self, job_kind: JobKind, declaration: Declaration, missing: str) -> None:
        conditions = job_kind.status.conditions
        verdicts = {
            ACCEPTED: _judge_accepted(declaration),
            ACTIVE: _judge_active(declaration, missing),
            HEALTHY: _judge_healthy(declaration),
        }
        for type_, (status, reason, message) in verdicts.items():
            conditions = set_condition(
                conditions,
                type_=type_,
                status=status,
                reason=reason,
                message=message,
                now=self._context.clock.now(),
                observed_generation=declaration.generation,
            )
        if conditions == job_kind.status.conditions:
            return
        patch = encode(JobKindStatus(conditions=conditions))
        informer = self._context.informers.job_kinds
        await write_status(self._context.client, informer, job_kind, patch)


def _judge_accepted(declaration: Declaration) -> Verdict:
    refusal = declaration.refusal
    if refusal is None:
        return True, JobKindReason.ACCEPTED, "its expressions and fields can be used"
    kept = "; an earlier version of it stays in use" if declaration.is_queued else ""
    return False, refusal.reason, f"{refusal}{kept}"


def _judge_active(declaration: Declaration, missing: str) -> Verdict:
    informer = declaration.informer
    if informer is None:
        return False, JobKindReason.NOT_ACCEPTED, "see the condition Accepted"
    if missing or isinstance(informer.last_error, Forbidden):
        words = missing or str(informer.last_error)
        return False, JobKindReason.RIGHT_MISSING, words
    if not informer.available:
        plural = f"{informer.resource.plural}.{informer.resource.group}"
        return (
            False,
            JobKindReason.NOT_SERVED,
            f"the cluster does not serve {plural} in {informer.resource.version}; install its CRD",
        )
    if not declaration.is_queued:
        return False, JobKindReason.UNREACHABLE, str(informer.last_error or "not listed yet")
    return True, JobKindReason.QUEUED, "objects with a queue label are queued"


def _judge_healthy(declaration: Declaration) -> Verdict:
    if declaration.failure:
        return False, JobKindReason.EXPRESSION_FAILING, declaration.failure
    return True, JobKindReason.AS_DECLARED, "every expression has a value for every object so far"
