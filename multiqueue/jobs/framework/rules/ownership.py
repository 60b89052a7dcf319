"""Rules about whether a job is ours at all. Parity: E-181, first steps."""

from __future__ import annotations

from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.jobs.framework.plan import EventNote, JobPlan, ReleaseWorkload, Wait, WriteJob
from multiqueue.jobs.framework.view import JobView


def release_with_job(view: JobView) -> JobPlan | None:
    """A job that is being deleted lets go of its Workloads, so that the collector can take them."""
    if not view.job["metadata"].get("deletionTimestamp"):
        return None
    held = [w for w in view.workloads if RESOURCE_IN_USE in w.metadata.finalizers]
    return ReleaseWorkload(workload=held[0]) if held else Wait()


def ignore_unmanaged(view: JobView) -> JobPlan | None:
    """Jobs of other namespaces, and jobs that ask for no queue, are none of our business."""
    if not view.options.namespaces.matches(view.namespace_labels):
        return Wait()
    if view.ancestor_admitted is not None:
        return None
    return None if view.queue or view.options.manage_all else Wait()


def follow_ancestor(view: JobView) -> JobPlan | None:
    """A job that a queued job made runs when that one does and needs no Workload of its own."""
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
