"""Decisions survive being written and read, and what cannot be read says where."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from multiqueue_dispatchers.score import Score

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Taint
from multiqueue.model.placement import Placement
from multiqueue.plugins import (
    Forecast,
    PodSetView,
    Prospect,
    ReservedFlavor,
    Runtime,
    StartEstimate,
    StoppedWorkload,
    WeightedTerm,
)
from multiqueue.plugins.recording import Decision, dump, load, read_recording, write_recording
from multiqueue.plugins.testing import GPU, T0, make_cluster, make_sample_views, make_view

PAIR = ("gpu", GPU)
HOUR = timedelta(hours=1)


def make_rich_view():
    term = (LabelSelectorRequirement(key="accelerator", operator="In", values=("h100",)),)
    pods = PodSetView(
        requests={GPU: 8},
        placement=Placement(node_selector=(("zone", "a"),), affinity_terms=(term,)),
        preferred=(WeightedTerm(weight=3, term=term),),
        reserved={GPU: ReservedFlavor(name="h100", equivalents=({"accelerator": "a100"},))},
    )
    forecast = Forecast(
        prospect=Prospect.PREEMPTS,
        taken={PAIR: 8},
        victims=(StoppedWorkload(key="a/b", lost=HOUR),),
        start=StartEstimate(at=T0, earliest=T0, latest=T0 + HOUR, ahead=2),
    )
    view = make_view(clusters=[replace(make_cluster("a"), forecast=forecast, prices={"gpu": 1})])
    queue = view.clusters[0].queue
    assert queue is not None
    taint = Taint(key="spot", effect="NoSchedule")
    flavors = {"gpu": replace(queue.flavors["gpu"], node_taints=(taint,))}
    clusters = (replace(view.clusters[0], queue=replace(queue, flavors=flavors)),)
    runtime = Runtime(expected=HOUR, low=HOUR / 2, high=2 * HOUR)
    workload = replace(
        view.workload, pod_sets=(pods,), runtime=runtime, data=frozenset({"x"}), speeds={"a": 1}
    )
    return replace(view, clusters=clusters, workload=workload, arguments={"scorers": {"price": 1}})


@pytest.mark.parametrize("view", [*make_sample_views(), make_rich_view()])
def test_what_was_written_is_read_again(view):
    decision = Decision(dispatcher="score", view=view, nomination=Score().nominate(view))
    assert list(read_recording(write_recording([decision]))) == [decision]


def test_a_failure_is_recorded_too():
    decision = Decision(dispatcher="x", profile="p", view=make_view(), problem="it hung")
    assert list(read_recording(write_recording([decision]))) == [decision]


def test_what_is_at_its_default_is_left_out():
    written = dump(make_view())
    assert "history" not in written
    assert "connected" not in dump(make_cluster())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"view": 3}, "line 2: Decision.view: 3 must be an object"),
        ({"colour": 1}, "line 2: Decision.colour: is unknown"),
        ({"dispatcher": None}, "line 2: Decision.dispatcher: None must be of type str"),
        ({"view": {"now": "noon"}}, "line 2: Decision.view.now: 'noon'"),
        ({"view": {"now": T0.isoformat()}}, "line 2: Decision.view.workload: is missing"),
        ({"view": {"clusters": 1}}, "line 2: Decision.view.clusters: 1 must be a list"),
        (
            {"view": {"clusters": [{"name": "a", "running": True}]}},
            "Decision.view.clusters[0].running: True must be of type int",
        ),
        ({"view": {"clusters": [{"name": "a", "copy": "Odd"}]}}, "clusters[0].copy: 'Odd'"),
    ],
)
def test_what_cannot_be_read_says_at_which_line_and_field(change, words):
    good = dump(Decision(dispatcher="x", view=make_view()))
    with pytest.raises(ValueError) as caught:
        list(read_recording(["\n", json.dumps({**good, **change})]))
    assert words in str(caught.value)


def test_a_line_that_is_no_json_says_its_number():
    with pytest.raises(ValueError, match="line 1: "):
        list(read_recording(["{"]))


def test_pairs_must_be_pairs():
    with pytest.raises(ValueError, match="must have 2 parts"):
        load(Forecast, {"prospect": "Fits", "taken": [[["gpu"], 1]]})
