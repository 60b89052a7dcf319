"""Follows the objects of the external kinds that the Configuration names.

Every replica does this, and only reads. A kind joins the registry as soon as its CRD is there and
its objects are listed; until then, jobs that its objects own wait, and so do its Workloads.
"""

from __future__ import annotations

import asyncio

import structlog

from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.declared.external import (
    ExternalFramework,
    build_external,
    list_external_frameworks,
)
from multiqueue.jobs.informers import build_job_informer
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.discovery import ServedKind, find_served_kind
from multiqueue.kube.errors import KubeError

RETRY_SECONDS = 15.0
"""How often a cluster is asked for a kind that it does not serve yet."""

log = structlog.get_logger("multiqueue.jobs")


class ExternalKinds:
    """Adds the external kinds of the Configuration to the registry.

    Args:
        context: The manager's context.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._frameworks = list_external_frameworks(context.config)
        self._kinds: dict[ExternalFramework, SupportedKind] = {}
        self._asked = {framework: asyncio.Event() for framework in self._frameworks}
        self._told: dict[ExternalFramework, str] = {}
        for framework in self._frameworks:
            gvk = framework.gvk
            context.integrations.awaited.add((gvk.group, gvk.kind))
            if framework.owns_jobs:
                context.integrations.owners.add(gvk)

    def find(self, group: str, kind: str) -> ExternalFramework | None:
        """Return the external kind of that group and name."""
        names = (group, kind)
        return next((f for f in self._frameworks if (f.gvk.group, f.gvk.kind) == names), None)

    async def run(self) -> None:
        """Follow the objects of all kinds until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for framework in self._frameworks:
                tasks.create_task(self._follow(framework), name=f"external {framework.gvk.dotted}")

    async def until_asked(self) -> None:
        """Return once each kind is in the registry, or known not to be available."""
        for event in self._asked.values():
            await event.wait()

    async def _follow(self, framework: ExternalFramework) -> None:
        while (served := await self._find(framework)) is None:
            self._asked[framework].set()
            await asyncio.sleep(RETRY_SECONDS)
        if framework not in self._kinds:
            self._kinds[framework] = self._build(framework, served)
        kind = self._kinds[framework]
        await self._context.informers.jobs[kind.integration.name].run()

    async def _find(self, framework: ExternalFramework) -> ServedKind | None:
        gvk = framework.gvk
        try:
            served = await find_served_kind(self._context.client, gvk.api_version, gvk.kind)
        except KubeError as error:
            self._tell(framework, str(error))
            return None
        if served is None:
            self._tell(framework, "the cluster does not serve it; install its CRD")
        elif not served.resource.namespaced:
            self._tell(framework, "its objects have no namespace; remove it from the Configuration")
            return None
        return served

    def _build(self, framework: ExternalFramework, served: ServedKind) -> SupportedKind:
        context = self._context
        kind = build_external(framework, served, context.config)
        informer = build_job_informer(
            context.client,
            kind,
            on_failed_object=lambda name: context.metrics.object_failures_total.child(name).inc(),
        )
        context.informers.jobs[kind.integration.name] = informer
        informer.add_listener(lambda _: self._on_informer(framework, kind))
        if not served.has_status:
            log.warning(
                "the CRD of an external framework has no subresource status: its status is "
                "written with the object",
                framework=framework.gvk.dotted,
            )
        return kind

    def _on_informer(self, framework: ExternalFramework, kind: SupportedKind) -> None:
        informer = self._context.informers.jobs[kind.integration.name]
        gvk = framework.gvk
        if informer.last_error is not None:
            self._tell(
                framework,
                f"{informer.last_error}; grant the manager get, list and watch on "
                f"{informer.resource.plural}.{gvk.group}, and patch on its status",
            )
        elif informer.synced.is_set() and self._context.integrations.find_kind(gvk) is not kind:
            self._context.integrations.add(kind)
            self._context.integrations.awaited.discard((gvk.group, gvk.kind))
            log.info("external framework is known", framework=gvk.dotted)
        if informer.synced.is_set() or informer.last_error is not None:
            self._asked[framework].set()

    def _tell(self, framework: ExternalFramework, problem: str) -> None:
        if self._told.get(framework) != problem:
            self._told[framework] = problem
            log.warning("external framework waits", framework=framework.gvk.dotted, problem=problem)
