"""The next step for a job: the first rule that matches decides. Pure.

The order is that of E-181 and matters: ends come before beginnings, and nothing is started or
stopped before it is clear which Workload stands for the job.
"""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.jobs.framework.integration import InvalidJobError
from multiqueue.jobs.framework.plan import EventNote, JobPlan, Wait
from multiqueue.jobs.framework.priority import PriorityClassNotFoundError
from multiqueue.jobs.framework.rules import (
    ending,
    following,
    holding,
    matching,
    ownership,
    prebuilt,
    readiness,
    running,
    slices,
)
from multiqueue.jobs.framework.view import JobView

Rule = Callable[[JobView], JobPlan | None]

FIRST: tuple[Rule, ...] = (
    # Before the release: a kind may keep the quota of a job that is being deleted (J-368).
    ownership.leave_skipped,
    ownership.release_with_job,
    ownership.ignore_unmanaged,
    ownership.follow_ancestor,
    ownership.keep_annotations,
    prebuilt.adopt_prebuilt,
    prebuilt.refuse_out_of_sync,
    # The slice to keep must be clear before anything is stopped or started for it.
    slices.finish_left_over,
    slices.follow_size,
    # Stopping comes before deleting: the quota must not be given away while pods start.
    matching.stop_on_worker,
    matching.stop_without_match,
    matching.delete_extra,
    matching.update_pending,
)
LAST: tuple[Rule, ...] = (
    # Deletion before the end: a finished Workload must be released, too.
    ending.release_deleted,
    ending.leave_finished,
    holding.hold,
    ending.finish_workload,
    matching.create_missing,
    holding.follow_conditions,
    following.reclaim,
    running.complete,
    ending.delete_deactivated,
    running.start,
    running.stop_unadmitted,
    readiness.follow_pods,
    # Last. Deviates: a missing class must not keep an admitted job from running, nor an evicted one
    # from being stopped.
    following.follow_queue,
    following.follow_gates,
    following.follow_priority,
)


def decide(view: JobView) -> JobPlan:
    """Return the next step; an invalid job gets an event and is left alone."""
    try:
        kind = view.integration
        for rule in (*kind.early_rules, *FIRST, *kind.member_rules, *LAST, *kind.late_rules):
            plan = rule(view)
            if plan is not None:
                return plan
    except InvalidJobError as error:
        if error.reported_at is not None and error.reported_at > view.now:
            return Wait(requeue_after=(error.reported_at - view.now).total_seconds())
        return Wait(note=EventNote(reason="ErrWorkloadCompose", message=str(error), warning=True))
    except PriorityClassNotFoundError as error:
        return Wait(
            note=EventNote(reason="WorkloadPriorityClassNotFound", message=str(error), warning=True)
        )
    return Wait()
