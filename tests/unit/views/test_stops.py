"""What a stop throws away, in numbers and in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import format_time
from multiqueue.views.stops import StopSum, say_stops, sum_stops
from tests.builders.workloads import T0, minutes

GPU = "nvidia.com/gpu"


def make_holder(pods: int = 3, *, since: str = "Admitted", **usage: str) -> api.Workload:
    """A Workload that has held this quota since T0, and some condition since ten minutes later."""
    assignment: dict[str, Any] = {"name": "main", "count": pods, "resourceUsage": usage}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": format_time(at)}
        for kind, at in (("QuotaReserved", T0), (since, minutes(10)))
    ]
    admission = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    status = {"admission": admission, "conditions": conditions}
    return decode(api.Workload, {"metadata": {"uid": "u"}, "status": status})


def test_devices_are_counted_since_the_pods_were_ready() -> None:
    running = make_holder(**{GPU: "8", "cpu": "4"})
    assert sum_stops([running, running], minutes(22)) == StopSum(
        jobs=2, pods=6, devices=16, device_seconds=16 * 720
    )
    ready = make_holder(since="PodsReady", **{GPU: "8"})
    assert sum_stops([ready], minutes(22)).device_seconds == 8 * 720
    reserved = make_holder(since="Other", **{GPU: "8"})
    assert sum_stops([reserved], minutes(22)) == StopSum(jobs=1, pods=3, devices=8)


def test_without_devices_cores_are_counted_and_without_quota_nothing() -> None:
    assert sum_stops([make_holder(cpu="2500m")], minutes(12)).core_seconds == 300
    waiting, ended = decode(api.Workload, {}), make_holder(since="Finished", **{GPU: "8"})
    assert sum_stops([waiting, ended], minutes(22)) == StopSum()


def test_a_clock_that_is_behind_gives_no_negative_loss() -> None:
    assert sum_stops([make_holder(**{GPU: "8"})], T0 - timedelta(hours=1)).device_seconds == 0


LEFT = "are lost, but for what the jobs saved"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (StopSum(), "no job is stopped"),
        (
            StopSum(jobs=1, pods=3, devices=8, device_seconds=5760.4),
            f"1 job with 3 pods on 8 devices is stopped; 1.60 GPU-hours {LEFT}",
        ),
        (StopSum(jobs=2, pods=1), "2 jobs with 1 pod are stopped"),
        (
            StopSum(jobs=2, pods=2, device_seconds=60, core_seconds=10),
            f"2 jobs with 2 pods are stopped; 0.02 GPU-hours and under 0.01 core-hours {LEFT}",
        ),
    ],
)
def test_the_sums_are_one_sentence(found: StopSum, words: str) -> None:
    assert say_stops(found) == words
