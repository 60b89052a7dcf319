"""Reads running jobs page by page, and imports them.

Each job is written in this order: its Workload (gated), the Workload's admission, the removal of
the gate, and last the job's labels. So a manager that runs meanwhile never sees a queued job
without an admitted Workload, and an import that was stopped continues where it was: a labelled job
is done, and an unlabelled one may have a Workload already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import has_quota
from multiqueue.cli.importing.decide import (
    ImportProblem,
    ImportSettings,
    PlannedImport,
    build_admission,
    decide_import,
)
from multiqueue.cli.importing.tally import ImportTally
from multiqueue.cli.importing.world import ImportWorld
from multiqueue.jobs.framework.integration import Integration, Job
from multiqueue.jobs.reading import find_integration
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, ApiError, Conflict, Gone, NotFound, Unauthorized
from multiqueue.kube.resources import JOBS, PODS, WORKLOADS, Resource

PAGE = 250
"""Jobs that are in memory at a time."""
ATTEMPTS = 5
"""How often the admission of one Workload is written if others change it meanwhile."""
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"
_GATED = {"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}}

Progress = Callable[[ImportTally], None]


class JobImport:
    """One import into one cluster.

    Args:
        client: A client of the cluster; its limiter bounds rate and parallelism.
        namespaces: The namespaces to import from.
        settings: What the user asked for.
        world: The queues, flavors and classes.
        parallel: How many jobs are imported at a time.
    """

    def __init__(
        self,
        client: KubeClient,
        namespaces: Sequence[str],
        settings: ImportSettings,
        world: ImportWorld,
        *,
        parallel: int,
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._settings = settings
        self._world = world
        self._parallel = parallel

    async def check(self) -> ImportTally:
        """Decide about every job, write nothing, and try the change of one job of each kind.

        Raises:
            KubeError: the jobs cannot be read.
        """
        tally, tried = ImportTally(), set[str]()
        async for kind, page in self._pages():
            for job in page:
                result = decide_import(job, kind, self._settings, self._world)
                if isinstance(result, PlannedImport) and kind.name not in tried:
                    tried.add(kind.name)
                    refusal = await self._try_label(kind.resource, result)
                    result = ImportProblem(refusal) if refusal else result
                tally.add(_describe(kind, job), result)
        return tally

    async def run(self, progress: Progress) -> ImportTally:
        """Import every job that can be; a problem of one does not stop the others.

        Raises:
            KubeError: the jobs cannot be read.
        """
        tally = ImportTally()
        async for kind, page in self._pages():
            todo = iter(page)

            async def work(kind: Integration = kind, todo: Any = todo) -> None:
                for job in todo:
                    result = decide_import(job, kind, self._settings, self._world)
                    if isinstance(result, PlannedImport):
                        result = await self._import(kind.resource, result)
                    tally.add(_describe(kind, job), result)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._parallel):
                    tasks.create_task(work())
            progress(tally)
        return tally

    async def _pages(self) -> AsyncIterator[tuple[Integration, list[Job]]]:
        kinds = (JOBS, PODS) if self._settings.with_jobs else (PODS,)
        for namespace in self._namespaces:
            for resource in kinds:
                kind = find_integration({"apiVersion": resource.api_version, "kind": resource.kind})
                assert kind is not None, "pods and Jobs are built in"
                async for page in self._read(resource, namespace):
                    yield kind, page

    async def _read(self, resource: Resource, namespace: str) -> AsyncIterator[list[Job]]:
        """Yield each job once; a list that expired on the server is begun again."""
        seen: set[str] = set()
        selector = _RUNNING if resource == PODS else ""
        while True:
            pages = self._client.pages(
                resource, namespace=namespace, field_selector=selector, limit=PAGE
            )
            try:
                async with aclosing(pages):
                    async for page in pages:
                        new = [job for job in page.items if job["metadata"]["uid"] not in seen]
                        seen.update(job["metadata"]["uid"] for job in new)
                        yield new
            except Gone:
                continue
            return

    # ------------------------------------------------------------ one job

    async def _import(self, resource: Resource, planned: PlannedImport) -> Any:
        """Write one job; return the plan, or the problem."""
        try:
            workload = await self._create(planned)
            if isinstance(workload, ImportProblem):
                return workload
            await self._admit(planned, workload)
            if names.ADMISSION_GATED_BY in workload.metadata.annotations:
                await self._client.patch(
                    WORKLOADS,
                    workload.metadata.name,
                    _GATED,
                    namespace=workload.metadata.namespace,
                )
            await self._label(resource, planned)
        except NotFound:
            return ImportProblem("it was deleted meanwhile")
        except Unauthorized:
            raise
        except ApiError as error:
            return ImportProblem(error.server_message)
        return planned

    async def _create(self, planned: PlannedImport) -> Workload | ImportProblem:
        """Create the Workload, or take the one that an earlier import made."""
        metadata = planned.body["metadata"]
        try:
            made = await self._client.create(WORKLOADS, planned.body)
        except AlreadyExists:
            made = await self._client.get(
                WORKLOADS, metadata["name"], namespace=metadata["namespace"]
            )
        workload = decode(Workload, made)
        uid = planned.job["metadata"]["uid"]
        if all(owner.uid != uid for owner in workload.metadata.owner_references):
            return ImportProblem("a Workload of its name belongs to another job; delete that one")
        return workload

    async def _admit(self, planned: PlannedImport, workload: Workload) -> None:
        """Write the admission, unless the Workload holds quota already."""
        for attempt in range(1, ATTEMPTS + 1):
            if has_quota(workload.status):
                return
            metadata = workload.metadata
            status = build_admission(
                planned, workload.status, now=datetime.now(UTC), generation=metadata.generation
            )
            patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
            try:
                await self._client.patch(
                    WORKLOADS,
                    metadata.name,
                    patch,
                    namespace=metadata.namespace,
                    subresource="status",
                )
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                found = await self._client.get(
                    WORKLOADS, metadata.name, namespace=metadata.namespace
                )
                workload = decode(Workload, found)
            else:
                return

    async def _label(
        self, resource: Resource, planned: PlannedImport, *, dry_run: bool = False
    ) -> None:
        metadata = planned.job["metadata"]
        await self._client.patch(
            resource,
            metadata["name"],
            build_labels(planned, self._settings.add_labels, is_pod=resource == PODS),
            namespace=metadata["namespace"],
            dry_run=dry_run,
        )

    async def _try_label(self, resource: Resource, planned: PlannedImport) -> str:
        """Return why the API server would refuse to label a job; empty if it would not."""
        try:
            await self._label(resource, planned, dry_run=True)
        except NotFound:
            return ""
        except Unauthorized:
            raise
        except ApiError as error:
            return (
                f"the API server refuses to label it: {error.server_message}; if another manager's "
                "webhook does, switch that off while you import"
            )
        return ""


def build_labels(
    planned: PlannedImport, add_labels: Mapping[str, str], *, is_pod: bool
) -> dict[str, Any]:
    """Return the change of a job that puts it into its queue; only of the job with this uid."""
    managed = {names.MANAGED: "true"} if is_pod else {}
    return {
        "metadata": {
            "uid": planned.job["metadata"]["uid"],
            "labels": {**add_labels, **managed, names.QUEUE_NAME: planned.queue},
            "annotations": {names.IMPORTED_AT: format_time(datetime.now(UTC))},
        }
    }


def _describe(kind: Integration, job: Job) -> str:
    metadata = job["metadata"]
    return f"{kind.gvk.kind.lower()} {metadata['namespace']}/{metadata['name']}"
