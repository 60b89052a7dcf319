"""Jobs that nobody may stop keep their part of a quota that a plan would lower."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from multiqueue.api.names import NON_PREEMPTIBLE
from multiqueue.controllers.quota_plan.demand import QuotaStay, read_stay
from multiqueue.controllers.quota_plan.floors import raise_bounds
from multiqueue.controllers.quota_plan.propose import PlanRules, QuotaBounds, QuotaKey
from multiqueue.model.disruption_policy import NonPreemptibleRule
from tests.builders.workloads import T0, admitted, make_workload

GPU, CPU = ("a100", "nvidia.com/gpu"), ("a100", "cpu")
A, B = QuotaKey("a", *GPU), QuotaKey("b", *GPU)
QUOTAS = {A: 16, B: 8, QuotaKey("a", *CPU): 1000}
HALF = {"a": NonPreemptibleRule(percent=50, longest_run=3600)}


def stay(gpus: int, *, queue: str = "a", limit: int = 3600, over: bool = False) -> QuotaStay:
    return QuotaStay(
        queue=queue,
        amounts={GPU: gpus, CPU: 400},
        queued=T0,
        begun=T0,
        ended=T0 if over else None,
        non_preemptible_for=limit,
    )


def bounds(*stays: QuotaStay, **own: QuotaBounds) -> dict[QuotaKey, QuotaBounds]:
    rules = PlanRules(name="plan", steps={GPU: 1}, bounds={A: own["a"]} if own else {})
    return dict(raise_bounds(rules, QUOTAS, stays, HALF, T0 + timedelta(seconds=1)).bounds)


@pytest.mark.parametrize(
    ("gpus", "floor"), [([1], 2), ([3, 2], 10), ([7], 14), ([9], 16)], ids=["1", "5", "7", "most"]
)
def test_what_they_hold_stays_within_their_part(gpus: list[int], floor: int) -> None:
    assert bounds(*map(stay, gpus)) == {A: QuotaBounds(least=floor)}


@pytest.mark.parametrize(
    "other",
    [stay(4, limit=0), stay(4, limit=3601), stay(4, over=True), stay(4, queue="b")],
    ids=["does not ask", "runs too long", "ended", "no policy"],
)
def test_others_hold_no_quota_up(other: QuotaStay) -> None:
    assert bounds(other) == {}


def test_bounds_of_the_spec_hold_where_they_are_higher() -> None:
    assert bounds(stay(1), a=QuotaBounds(least=4)) == {A: QuotaBounds(least=4)}
    assert bounds(stay(4), a=QuotaBounds(most=6)) == {A: QuotaBounds(least=8, most=8)}


@pytest.mark.parametrize(("asks", "seconds"), [("true", 900), ("false", 0), ("yes?", 0)])
def test_a_workload_tells_for_how_long_nobody_may_stop_it(asks: str, seconds: int) -> None:
    workload = admitted(make_workload("train"), at=T0)
    metadata = replace(workload.metadata, annotations={NON_PREEMPTIBLE: asks})
    spec = replace(workload.spec, maximum_execution_time_seconds=900)
    found = read_stay(replace(workload, metadata=metadata, spec=spec))
    assert found is not None
    assert found.non_preemptible_for == seconds


def test_a_part_is_rounded_down_and_so_a_floor_up() -> None:
    """Of 12 GPUs 33 % are 3, of 13 they are 4."""
    rules = PlanRules(name="plan", steps={GPU: 1})
    parts = {"a": NonPreemptibleRule(percent=33, longest_run=3600)}
    raised = raise_bounds(rules, QUOTAS, [stay(4)], parts, T0)
    assert raised.bounds == {A: QuotaBounds(least=13)}
