"""Gangs that need fewer nodes on some hardware, in simulated days."""

from __future__ import annotations

from dataclasses import replace

import pytest
from multiqueue_dispatchers.all_at_once import AllAtOnce
from multiqueue_dispatchers.score import Score

from multiqueue.plugins import Dispatcher
from multiqueue.simulation.fleet_file import FleetFileError, parse_fleet
from multiqueue.simulation.timeline import build_timeline
from multiqueue.simulation.traces.make import with_speeds
from tests.unit.simulation.test_world import assert_sound
from tests.unit.simulation.worlds import (
    make_fleet_of,
    make_small_trace,
    make_trace_job,
    play_jobs,
    play_trace,
)


def test_half_of_the_nodes_are_half_as_fast_together() -> None:
    fleet = replace(make_fleet_of(a100=32, h100=16), alternatives={"h100": 0.5})
    large, small = with_speeds([make_trace_job("a", gpus=16), make_trace_job("b", gpus=8)], fleet)

    assert (large.gpus_on("a100"), large.gpus_on("h100")) == (16, 8)
    assert (large.speed_on("a100"), large.speed_on("h100")) == (1.0, 0.95)
    assert (small.gpus_on("h100"), small.speed_on("h100")) == (8, 1.9)


def test_a_gang_takes_what_it_needs_there_and_leaves_the_rest_of_the_quota_to_others() -> None:
    """Sixteen are the manager's, too: one job runs where it takes eight, so two run at once."""
    fleet = replace(make_fleet_of(h100=16), alternatives={"h100": 0.5})
    run = play_jobs(make_trace_job("a", gpus=16), make_trace_job("b", gpus=8), fleet=fleet)

    first, second = (record.stays[0] for record in run.jobs)
    assert second.begun < first.begun + first.seconds
    assert max(build_timeline(run).clusters["h100"].values) == 16
    assert_sound(run)


@pytest.mark.parametrize("dispatcher", [AllAtOnce(), Score()], ids=lambda d: type(d).__name__)
def test_no_gpu_is_given_twice(dispatcher: Dispatcher) -> None:
    fleet = replace(make_fleet_of(a100=64, h100=64), alternatives={"h100": 0.5})
    trace = make_small_trace(fleet, count=30)
    assert any(job.alternatives for job in trace.jobs)
    run = play_trace(trace, fleet, dispatcher, "test")
    line = build_timeline(run)
    for cluster in fleet.clusters:
        assert max(line.clusters[cluster.name].values) <= cluster.total
    assert all(record.stays[-1].ended is not None for record in run.jobs)


def test_a_file_says_on_which_hardware() -> None:
    clusters = [{"name": "west", "gpus": {"h100": 16}}]
    fleet = parse_fleet({"clusters": clusters, "alternatives": {"h100": 0.5}})
    assert fleet.alternatives == {"h100": 0.5}
    with pytest.raises(FleetFileError, match=r"alternatives\.h100: must be less than 1"):
        parse_fleet({"clusters": clusters, "alternatives": {"h100": 1}})
