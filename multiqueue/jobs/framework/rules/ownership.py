"""Rules about whether the framework manages a job at all. Parity: E-181, first steps."""

from __future__ import annotations

from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.jobs.framework.plan import EventNote, JobPlan, ReleaseWorkload, Wait, WriteJob
from multiqueue.jobs.framework.view import JobView


def release_with_job(view: JobView) -> JobPlan | None:
    """Release the Workloads of a job under deletion, for the garbage collector."""
    if not view.job["metadata"].get("deletionTimestamp"):
        return None
    held = [w for w in view.workloads if RESOURCE_IN_USE in w.metadata.finalizers]
    return ReleaseWorkload(workload=held[0]) if held else Wait()


def ignore_unmanaged(view: JobView) -> JobPlan | None:
    """Leave jobs alone that are in unmanaged namespaces or request no queue."""
    if not view.options.namespaces.matches(view.namespace_labels):
        return Wait()
    if view.ancestor_admitted is not None:
        return None
    return None if view.queue or view.options.manage_all else Wait()


def follow_ancestor(view: JobView) -> JobPlan | None:
    """Run a job of a queued job when that one runs; it needs no Workload of its own."""
    if view.ancestor_admitted is None:
        return None
    if view.ancestor_admitted or view.ended:
        return Wait()
    patch = view.integration.stop_patch(view.job, ())
    if patch is None:
        return Wait()
    return WriteJob(
        patch=patch,
        strict=False,
        note=EventNote(reason="Suspended", message="Kueue managed child job suspended"),
    )
