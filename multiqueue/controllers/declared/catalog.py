"""Keeps the registry of kinds in step with the JobKinds, while the manager runs.

Every replica does this: the webhooks of a standby must know the kinds, too. Only the leader writes
(`controller.py`). If a JobKind changes, its expressions are exchanged and nothing restarts; if it
becomes wrong, its last good version stays in use until this process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from multiqueue.api.v1alpha1 import JobKind
from multiqueue.controllers.declared.external import ExternalKinds
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.declared.adapter import build_declared
from multiqueue.jobs.declared.compiled import (
    CompiledKind,
    JobKindReason,
    JobKindRefusedError,
    compile_kind,
)
from multiqueue.jobs.declared.kind import DeclaredKind
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.informers import build_job_informer
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.events import build_reference
from multiqueue.kube.informer import Informer

FIRST_LIST_SECONDS = 10.0
"""How long the start of the manager waits for the objects of each declared kind."""
MAX_REPORTED = 1000
"""Jobs of one kind whose last problem is remembered, so that there is one Event for each."""

SETTLED = frozenset({JobKindReason.BUILT_IN, JobKindReason.EXTERNAL})
"""Reasons of a refusal after which the jobs of the kind are still taken care of otherwise."""

log = structlog.get_logger("multiqueue.jobs")


@dataclass(slots=True)
class Declaration:
    """What became of one JobKind.

    Attributes:
        generation: The generation that was read.
        refusal: Why that generation is not accepted; None if it is.
        kind: What is done for its objects; None while it is not queued.
        informer: The informer of its objects; None until it was accepted once.
        task: What keeps the informer running.
        failure: The last problem of an expression with an object of this generation.
        reported: The last problem of each object, by uid.
        answered: Set once its objects were listed, or could not be.
    """

    generation: int = 0
    refusal: JobKindRefusedError | None = None
    kind: SupportedKind | None = None
    integration: DeclaredKind | None = None
    informer: Informer[Job] | None = None
    task: asyncio.Task[None] | None = None
    failure: str = ""
    reported: dict[str, str] = field(default_factory=dict)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_queued(self) -> bool:
        """Whether objects of the kind are queued."""
        return self.kind is not None


class DeclaredKinds:
    """Adds the kinds of JobKinds to the registry, and removes them.

    Args:
        context: The manager's context.

    Attributes:
        ready: Set once the JobKinds that there are at the start are in use, or known to be wrong.
        on_change: Called with the name of a JobKind if something about it changed.
    """

    name = "declared-kinds"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._declarations: dict[str, Declaration] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._external = ExternalKinds(context)
        self.ready = asyncio.Event()
        self.on_change: Callable[[str], None] = lambda _name: None

    def find(self, name: str) -> Declaration | None:
        """Return what became of a JobKind; None while it is unknown."""
        return self._declarations.get(name)

    async def run(self) -> None:
        """Follow the JobKinds until cancelled."""
        job_kinds = self._context.informers.job_kinds
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for declaration in self._declarations.values():
                    self._start(declaration)
                tasks.create_task(self._external.run(), name="external kinds")
                job_kinds.add_handler(self._on_job_kind)
                await job_kinds.settled.wait()
                await self._first_lists()
                self.ready.set()
                await asyncio.get_running_loop().create_future()
        finally:
            self._tasks = None

    async def _first_lists(self) -> None:
        """Wait for the objects of the kinds, so that none of them is taken to be gone."""
        try:
            async with asyncio.timeout(FIRST_LIST_SECONDS):
                await self._external.until_asked()
        except TimeoutError:
            log.warning("objects of an external kind are not listed yet")
        for name, declaration in list(self._declarations.items()):
            if declaration.informer is None:
                continue
            try:
                async with asyncio.timeout(FIRST_LIST_SECONDS):
                    await declaration.answered.wait()
            except TimeoutError:
                log.warning("objects of a declared kind are not listed yet", job_kind=name)

    # ------------------------------------------------------------ changes of JobKinds

    def _on_job_kind(self, old: JobKind | None, new: JobKind | None) -> None:
        name = (new or old or JobKind()).metadata.name
        if new is None:
            self._forget(old or JobKind())
        else:
            known = self._declarations.get(name)
            if known is None or known.generation != new.metadata.generation:
                self._declare(new)
        self.on_change(name)

    def _declare(self, job_kind: JobKind) -> None:
        name = job_kind.metadata.name
        declaration = self._declarations.setdefault(name, Declaration())
        declaration.generation = job_kind.metadata.generation
        declaration.failure = ""
        declaration.reported.clear()
        declaration.refusal = None
        spec = job_kind.spec
        try:
            self._refuse_second(job_kind)
            compiled = compile_kind(spec)
        except JobKindRefusedError as error:
            declaration.refusal = error
            if error.reason not in SETTLED and not declaration.is_queued:
                self._context.integrations.awaited.add((spec.group, spec.kind))
            log.warning(
                "JobKind not accepted", job_kind=name, reason=error.reason, error=str(error)
            )
            return
        if declaration.integration is not None:
            declaration.integration.use(compiled)
            log.info("JobKind changed", job_kind=name)
            return
        self._follow(name, declaration, compiled)

    def _refuse_second(self, job_kind: JobKind) -> None:
        """Refuse a JobKind for a kind that another one has: the one in use, else the older one.

        Raises:
            JobKindRefusedError: there is another one, or the kind is external.
        """
        spec, name = job_kind.spec, job_kind.metadata.name
        external = self._external.find(spec.group, spec.kind)
        if external is not None:
            raise JobKindRefusedError(
                JobKindReason.EXTERNAL,
                f"the Configuration names {external.gvk.dotted} in externalFrameworks, so its own "
                "controller queues it; remove it there, or delete this JobKind",
            )
        if self._is_in_use(name):
            return
        for other in self._context.informers.job_kinds.store.list():
            same = (other.spec.group, other.spec.kind) == (spec.group, spec.kind)
            named = other.metadata.name
            if same and named != name and (self._is_in_use(named) or _age(other) < _age(job_kind)):
                raise JobKindRefusedError(
                    JobKindReason.DUPLICATE,
                    f'JobKind "{named}" declares {spec.group}/{spec.kind} already, and is older; '
                    "delete one of the two",
                )

    def _is_in_use(self, name: str) -> bool:
        declaration = self._declarations.get(name)
        return declaration is not None and declaration.integration is not None

    def _follow(self, name: str, declaration: Declaration, compiled: CompiledKind) -> None:
        """List the objects of a kind; it is queued once they are known."""
        integration = DeclaredKind(compiled)
        integration.on_failure = lambda job, words: self._report(name, job, words)
        kind = build_declared(integration)
        declaration.integration = integration
        declaration.informer = build_job_informer(
            self._context.client,
            kind,
            on_failed_object=lambda plural: self._context.metrics.object_failures_total.child(
                plural
            ).inc(),
        )
        self._context.integrations.awaited.add((compiled.spec.group, compiled.spec.kind))
        declaration.informer.add_listener(lambda _: self._on_informer(name, declaration, kind))
        self._start(declaration)

    def _start(self, declaration: Declaration) -> None:
        if self._tasks is not None and declaration.informer is not None:
            declaration.task = self._tasks.create_task(
                declaration.informer.run(), name=f"informer {declaration.informer.resource.plural}"
            )

    def _on_informer(self, name: str, declaration: Declaration, kind: SupportedKind) -> None:
        """Queue a kind as soon as its objects are known; then it stays queued."""
        informer = declaration.informer
        if self._declarations.get(name) is declaration and informer is not None:
            if informer.synced.is_set() or informer.last_error is not None:
                declaration.answered.set()
            if informer.synced.is_set() and not declaration.is_queued:
                self._queue(name, declaration, kind)
            self.on_change(name)

    def _queue(self, name: str, declaration: Declaration, kind: SupportedKind) -> None:
        assert declaration.informer is not None
        gvk = kind.integration.gvk
        self._context.informers.jobs[kind.integration.name] = declaration.informer
        self._context.integrations.add(kind)
        self._context.integrations.awaited.discard((gvk.group, gvk.kind))
        declaration.kind = kind
        log.info("declared kind is queued", job_kind=name, kind=str(gvk))

    def _forget(self, job_kind: JobKind) -> None:
        name = job_kind.metadata.name
        declaration = self._declarations.pop(name, None)
        if declaration is None:
            return
        self._context.integrations.awaited.discard((job_kind.spec.group, job_kind.spec.kind))
        if declaration.kind is not None:
            self._context.integrations.remove(declaration.kind)
            del self._context.informers.jobs[declaration.kind.integration.name]
            log.info("declared kind is not queued any more", job_kind=name)
        if declaration.task is not None:
            declaration.task.cancel()
        self._declare_refused()

    def _declare_refused(self) -> None:
        """Try JobKinds again that were refused beside one that is gone now."""
        for name, declaration in list(self._declarations.items()):
            refusal = declaration.refusal
            if refusal is not None and refusal.reason is JobKindReason.DUPLICATE:
                job_kind = self._context.informers.job_kinds.store.get(name)
                if job_kind is not None:
                    self._declare(job_kind)
                    self.on_change(name)

    # ------------------------------------------------------------ failing expressions

    def _report(self, name: str, job: Job, words: str) -> None:
        """Record an expression without a value: once for each object, on it and on the JobKind."""
        declaration = self._declarations.get(name)
        metadata = job.get("metadata") or {}
        uid = str(metadata.get("uid") or "")
        if declaration is None or not uid or declaration.reported.get(uid) == words:
            return
        if len(declaration.reported) >= MAX_REPORTED:
            declaration.reported.clear()
        declaration.reported[uid] = words
        assert declaration.integration is not None
        reference = build_reference(job, declaration.integration.resource)
        message = f'JobKind "{name}": {words}'
        self._context.recorder.event(reference, "Warning", "JobKindExpressionFailed", message)
        if not declaration.failure:
            key = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            declaration.failure = f'{declaration.integration.gvk.kind} "{key}": {words}'
            self.on_change(name)


def _age(job_kind: JobKind) -> tuple[str, str]:
    return job_kind.metadata.creation_timestamp, job_kind.metadata.name
