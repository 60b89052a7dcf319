"""Rules for Workloads that end, are deactivated, or wait out a backoff."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2 import ObjectMeta, OwnerReference, WorkloadPriorityClass
from multiqueue.api.workload_checks import sync_checks
from multiqueue.api.workload_state import (
    complete_eviction,
    finish,
    set_requeue_at,
    target_deactivation,
)
from multiqueue.controllers.workload.decide import decide
from multiqueue.controllers.workload.plan import Delete, NothingToDo, PatchSpec, ReleaseFinalizer
from multiqueue.controllers.workload.view import WorkloadOptions
from tests.builders.workloads import (
    T0,
    admitted,
    evicted,
    make_workload,
    minutes,
    with_status,
)
from tests.unit.controllers.workload_views import (
    condition_of,
    is_done,
    make_cluster_queue,
    make_local_queue,
    make_view,
    step,
)


def after_eviction(reason: str, **what: Any) -> Any:
    workload = evicted(admitted(make_workload(**what)), reason)
    return with_status(workload, complete_eviction(workload.status, now=T0))


# ---------------------------------------------------------------- orphans and the finished


def test_a_workload_that_lost_its_owner_ends() -> None:
    """E-117."""
    view = step(make_view(make_workload(labels={names.JOB_UID: "u"})))
    assert condition_of(view, "Finished") == (
        "True",
        "OwnerNotFound",
        "The workload's owner no longer exists",
    )


def test_a_workload_made_by_hand_is_no_orphan() -> None:
    assert decide(make_view(make_workload())) == NothingToDo()


def test_an_orphan_under_deletion_is_let_go() -> None:
    """E-117."""
    view = make_view(make_workload(deleted=True))
    assert decide(view) == ReleaseFinalizer()
    assert decide(make_view(make_workload(deleted=True, finalizers=()))) == NothingToDo()


def test_a_workload_under_deletion_is_left_to_its_job() -> None:
    assert decide(make_view(admitted(make_workload(deleted=True, owner_uid="u")))) == NothingToDo()


def test_the_finished_go_after_the_retention_time() -> None:
    """E-116."""
    workload = make_workload(owner_uid="u")
    workload = with_status(workload, finish(workload.status, "Succeeded", "", now=T0))
    assert decide(make_view(workload)) == NothingToDo()
    options = WorkloadOptions(delete_finished_after=timedelta(minutes=5))
    early = make_view(workload, options=options, now=minutes(4))
    assert decide(early) == NothingToDo(requeue_after=60)
    assert isinstance(decide(replace(early, now=minutes(5))), Delete)


# ---------------------------------------------------------------- deactivation


def test_a_deactivation_is_first_asked_for_then_done_then_told() -> None:
    """E-108."""
    workload = admitted(make_workload(owner_uid="job-uid"))
    asked = with_status(
        workload,
        target_deactivation(workload.status, Reason.ADMISSION_CHECK, "a check said no", now=T0),
    )
    assert decide(make_view(asked)) == PatchSpec(patch={"active": False})
    inactive = msgspec.structs.replace(
        asked, spec=msgspec.structs.replace(asked.spec, active=False)
    )
    view = step(make_view(inactive))
    assert condition_of(view, "Evicted") == (
        "True",
        "DeactivatedDueToAdmissionCheck",
        "The workload is deactivated due to a check said no",
    )
    assert is_done(decide(view))


def test_deactivating_what_holds_nothing_evicts_too() -> None:
    view = step(make_view(make_workload(active=False)))
    assert condition_of(view, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert condition_of(view, "QuotaReserved") == (
        "False",
        "Deactivated",
        "The workload is deactivated",
    )
    assert is_done(decide(view))


def test_a_deactivated_workload_has_only_the_checks_that_every_flavor_needs() -> None:
    """E-111."""
    workload = after_eviction("DeactivatedDueToAdmissionCheck")
    workload = msgspec.structs.replace(
        with_status(workload, sync_checks(workload.status, ["of-its-flavor"], T0)),
        spec=msgspec.structs.replace(workload.spec, active=False),
    )
    view = step(make_view(workload, cluster_queue=make_cluster_queue("of-all")))
    assert [check.name for check in view.workload.status.admission_checks] == ["of-all"]
    assert is_done(decide(view))


@pytest.mark.parametrize("reason", ["Deactivated", "DeactivatedDueToAdmissionCheck"])
def test_a_reactivated_workload_queues_again_whatever_the_cause(reason: str) -> None:
    view = step(make_view(after_eviction(reason)))
    assert condition_of(view, "Requeued") == (
        "True",
        "Reactivated",
        "The workload was reactivated",
    )
    assert is_done(decide(view))


# ---------------------------------------------------------------- backoff


def test_a_backoff_ends_at_its_time() -> None:
    workload = after_eviction(Reason.ADMISSION_CHECK)
    waiting = with_status(workload, set_requeue_at(workload.status, minutes(2)))
    assert decide(make_view(waiting, now=minutes(1))) == NothingToDo(requeue_after=60)
    view = step(make_view(waiting, now=minutes(2)))
    assert condition_of(view, "Requeued") == (
        "True",
        "BackoffFinished",
        "The workload backoff was finished",
    )
    assert view.workload.status.requeue_state is None


def test_without_a_backoff_it_is_over_at_once() -> None:
    view = step(make_view(after_eviction(Reason.ADMISSION_CHECK)))
    assert condition_of(view, "Requeued") is not None
    assert is_done(decide(view))


@pytest.mark.parametrize(
    ("reason", "stopped", "restarted"),
    [
        (
            Reason.CLUSTER_QUEUE_STOPPED,
            {"cluster_queue": make_cluster_queue(stop_policy="HoldAndDrain")},
            "ClusterQueueRestarted",
        ),
        (
            Reason.LOCAL_QUEUE_STOPPED,
            {"local_queue": make_local_queue(stop_policy="Hold")},
            "LocalQueueRestarted",
        ),
    ],
)
def test_the_drained_queue_again_when_their_queue_restarts(
    reason: Reason, stopped: dict[str, Any], restarted: str
) -> None:
    workload = after_eviction(reason)
    assert is_done(decide(make_view(workload, **stopped)))
    got = condition_of(step(make_view(workload)), "Requeued")
    assert got is not None
    assert got[:2] == ("True", restarted)


def test_a_preempted_workload_needs_nobody_to_requeue_it() -> None:
    assert is_done(decide(make_view(after_eviction(Reason.PREEMPTED))))


# ---------------------------------------------------------------- priority classes


def test_another_value_of_its_class_reaches_a_workload() -> None:
    """E-187."""
    high = WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=7)
    assert decide(make_view(make_workload(priority=5), priority_class=high)) == PatchSpec(
        patch={"priority": 7}
    )
    assert is_done(decide(make_view(make_workload(priority=7), priority_class=high)))
    inactive = step(make_view(make_workload(priority=5, active=False)))
    assert decide(replace(inactive, priority_class=high)) == PatchSpec(patch={"priority": 7})


def test_a_copy_of_another_cluster_keeps_its_priority() -> None:
    high = WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=7)
    copy = make_workload(priority=5, labels={names.MULTIKUEUE_ORIGIN: "manager"})
    assert is_done(decide(make_view(copy, priority_class=high)))


def test_a_variant_has_the_priority_of_its_parent() -> None:
    """E-172."""
    high = WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=7)
    variant = make_workload(priority=5)
    owner = OwnerReference(api_version=names.V1BETA2, kind="Workload", name="parent", uid="u")
    metadata = msgspec.structs.replace(variant.metadata, owner_references=(owner,))
    variant = msgspec.structs.replace(variant, metadata=metadata)
    assert is_done(decide(make_view(variant, priority_class=high)))
