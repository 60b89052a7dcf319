"""Rules about whether the framework manages a job at all. Parity: E-181, first steps."""

from __future__ import annotations

from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.jobs.framework.integration import JobPatch
from multiqueue.jobs.framework.plan import EventNote, JobPlan, ReleaseWorkload, Wait, WriteJob
from multiqueue.jobs.framework.template_kind import TemplateKind
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


def keep_annotations(view: JobView) -> JobPlan | None:
    """Write the annotations that the job's kind keeps on it (J-325)."""
    kind = view.integration
    if view.ended or not isinstance(kind, TemplateKind):
        return None
    present = view.job["metadata"].get("annotations") or {}
    wanted = kind.own_annotations(view.job)
    changes = {key: value for key, value in wanted.items() if present.get(key) != value}
    if not changes:
        return None
    patch = JobPatch(patch={"metadata": {"annotations": changes}})
    return WriteJob(patch=patch, strict=False)


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
