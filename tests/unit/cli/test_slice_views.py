"""A slice of an elastic job in words: what it asks for, and where it stands."""

from __future__ import annotations

import msgspec

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.find import pick_workload
from multiqueue.cli.views.explanation import explain
from multiqueue.views.phase import PhaseState, find_phase
from tests.unit.cli.builders import condition, make_objects, make_workload

HELD = condition("QuotaReserved", "True", "QuotaReserved", "")
WAITS = condition("QuotaReserved", "False", "WaitingForQuota", "3 more needed")
REPLACED = condition("Finished", "True", "WorkloadSliceReplaced", "Replaced to accommodate")


def of(workload: Workload, *, pods: int, replaces: str = "") -> Workload:
    (pod_set,) = workload.spec.pod_sets
    pod_sets = (msgspec.structs.replace(pod_set, count=pods),)
    annotations = {names.WORKLOAD_SLICE_REPLACEMENT_FOR: replaces} if replaces else {}
    return msgspec.structs.replace(
        workload,
        metadata=msgspec.structs.replace(workload.metadata, annotations=annotations),
        spec=msgspec.structs.replace(workload.spec, pod_sets=pod_sets),
    )


def test_a_slice_that_waits_says_what_runs_on() -> None:
    old = of(make_workload("old", HELD), pods=2)
    new = of(make_workload("new", WAITS), pods=5, replaces=old.metadata.key)
    explanation = explain(make_objects(old, new), new)
    assert explanation.asks == (
        "5 pod(s) of main in place of 2, which run on as old until then; "
        "only the difference needs quota"
    )


def test_a_slice_after_which_nothing_runs_on_asks_for_all() -> None:
    old = of(make_workload("old", HELD, REPLACED), pods=2)
    new = of(make_workload("new", WAITS), pods=5, replaces=old.metadata.key)
    assert explain(make_objects(old, new), new).asks == ""


def test_a_slice_that_another_one_took_over_from_did_not_fail() -> None:
    phase = find_phase(make_workload("old", HELD, REPLACED))
    assert (phase.state, phase.words) == (PhaseState.REPLACED, "replaced by a larger slice")


def test_a_job_is_known_by_the_slice_that_is_not_over() -> None:
    """One that was withdrawn is newer than the one that runs."""
    running, withdrawn = make_workload("w1", HELD), make_workload("w2", WAITS, REPLACED)
    owner = running.metadata.owner_references
    withdrawn = msgspec.structs.replace(
        withdrawn, metadata=msgspec.structs.replace(withdrawn.metadata, owner_references=owner)
    )
    found = pick_workload([running, withdrawn], "", owner[0].name)
    assert found is running
