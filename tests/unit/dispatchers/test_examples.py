"""What the example dispatchers promise, and that each is as short as a page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import multiqueue_dispatchers.examples
import pytest
from multiqueue_dispatchers.all_at_once import AllAtOnce
from multiqueue_dispatchers.examples.cheapest_first import CheapestFirst
from multiqueue_dispatchers.examples.data_locality import DataLocality
from multiqueue_dispatchers.examples.deadline import Deadline
from multiqueue_dispatchers.examples.round_robin import RoundRobin
from multiqueue_dispatchers.examples.spread import Spread
from multiqueue_dispatchers.examples.sticky_team import StickyTeam
from multiqueue_dispatchers.external import External

from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.plugins import Forecast, Prospect, Runtime, StartEstimate
from multiqueue.plugins.testing import (
    T0,
    assert_dispatcher_contract,
    make_cluster,
    make_view,
    make_workload,
)

HOUR = timedelta(hours=1)
RUNTIME = Runtime(expected=2 * HOUR, low=HOUR, high=4 * HOUR)
ALL = (CheapestFirst, DataLocality, Deadline, RoundRobin, Spread, StickyTeam)


def choose(dispatcher, *clusters, workload=None) -> tuple[str, ...]:
    return dispatcher.nominate(make_view(clusters=clusters, workload=workload)).clusters


@pytest.mark.parametrize("kind", ALL)
def test_each_keeps_the_contract_and_is_installed(kind):
    dispatcher = kind()
    assert_dispatcher_contract(dispatcher)
    selection = Dispatchers().select(dispatcher.name)
    assert type(selection.dispatcher) is kind


@pytest.mark.parametrize("kind", [*ALL, AllAtOnce, External])
def test_one_without_arguments_refuses_those_that_somebody_hopes_for(kind):
    """A filter of a profile that nobody heeds would send jobs where they must not go."""
    (problem,) = kind().check_arguments({"filters": ["healthy"]})
    assert problem == "argument filters: is unknown; there are: none"


@pytest.mark.parametrize("kind", ALL)
def test_each_prefers_room_to_whatever_it_likes_best(kind):
    liked = replace(
        make_cluster("a", used=8), data=frozenset({"d"}), neighbours=9, prices={"gpu": 1}
    )
    free = replace(make_cluster("b", used=7), running=9, prices={"gpu": 9})
    workload = replace(make_workload(), data=frozenset({"d"}))
    assert choose(kind(), liked, free, workload=workload) == ("b",)


def test_every_example_is_a_page():
    assert multiqueue_dispatchers.examples.__file__ is not None
    pages = sorted(Path(multiqueue_dispatchers.examples.__file__).parent.glob("*.py"))
    assert len(pages) == len(ALL) + 1
    assert all(len(page.read_text().splitlines()) <= 60 for page in pages)


class TestCheapestFirst:
    def test_faster_hardware_may_cost_more_an_hour(self):
        old = replace(make_cluster("old", flavor="a100"), prices={"a100": 1800})
        new = replace(make_cluster("new", flavor="h100"), prices={"h100": 3600})
        quick = replace(make_workload(), runtime=RUNTIME, speeds={"h100": 2500})
        slow = replace(make_workload(), runtime=RUNTIME, speeds={"h100": 1500})
        assert choose(CheapestFirst(), old, new, workload=quick) == ("new",)
        assert choose(CheapestFirst(), old, new, workload=slow) == ("old",)

    def test_what_has_no_price_goes_last(self):
        priced = replace(make_cluster("b"), prices={"gpu": 99_000})
        assert choose(CheapestFirst(), make_cluster("a"), priced) == ("b",)


def test_data_locality_counts_what_is_missing():
    workload = replace(make_workload(), data=frozenset({"x", "y"}))
    some = replace(make_cluster("b"), data=frozenset({"x"}))
    everything = replace(make_cluster("c"), data=frozenset({"x", "y", "z"}))
    assert choose(DataLocality(), make_cluster("a"), some, everything, workload=workload) == ("c",)


def test_sticky_team_goes_where_its_jobs_are():
    here = replace(make_cluster("b"), neighbours=2)
    assert choose(StickyTeam(), make_cluster("a"), here) == ("b",)


def test_spread_takes_the_emptiest_and_round_robin_the_one_with_fewest():
    emptier = replace(make_cluster("b"), running=5)
    fuller = replace(make_cluster("a", used=4), running=1)
    assert choose(Spread(), fuller, emptier) == ("b",)
    assert choose(RoundRobin(), fuller, emptier) == ("a",)


class TestDeadline:
    def workload(self, due: str):
        annotations = {"multiqueue.dev/deadline": due} if due else {}
        made = make_workload(annotations=annotations)
        return replace(made, runtime=RUNTIME, speeds={"h100": 2000})

    def clusters(self):
        old = replace(make_cluster("old", flavor="a100"), prices={"a100": 1000})
        new = replace(make_cluster("new", flavor="h100"), prices={"h100": 5000})
        return old, new

    def test_the_cheapest_in_time_is_taken(self):
        late = (T0 + 3 * HOUR).isoformat()
        soon = (T0 + 1.5 * HOUR).isoformat()
        assert choose(Deadline(), *self.clusters(), workload=self.workload(late)) == ("old",)
        assert choose(Deadline(), *self.clusters(), workload=self.workload(soon)) == ("new",)
        assert choose(Deadline(), *self.clusters(), workload=self.workload("")) == ("old",)

    def test_of_those_in_time_one_without_a_price_comes_last(self):
        unpriced = make_cluster("a", flavor="a100")
        late = (T0 + 3 * HOUR).isoformat()
        assert choose(Deadline(), unpriced, *self.clusters(), workload=self.workload(late)) == (
            "old",
        )

    def test_the_wait_counts(self):
        waits = Forecast(
            prospect=Prospect.WAITS,
            start=StartEstimate(at=T0 + 5 * HOUR, earliest=T0, latest=T0 + 9 * HOUR),
        )
        sooner = replace(
            waits, start=StartEstimate(at=T0 + HOUR, earliest=T0, latest=T0 + 2 * HOUR)
        )
        clusters = (
            replace(make_cluster("a"), forecast=waits),
            replace(make_cluster("b"), forecast=sooner),
        )
        due = self.workload((T0 + 4 * HOUR).isoformat())
        assert choose(Deadline(), *clusters, workload=due) == ("b",)

    def test_it_waits_for_the_cheaper_one_for_half_of_the_time_to_spare(self):
        at = T0 + HOUR
        start = StartEstimate(at=at, earliest=at, latest=at)
        old, new = self.clusters()
        busy = replace(old, forecast=Forecast(prospect=Prospect.WAITS, start=start))
        relaxed = self.workload((T0 + 4 * HOUR).isoformat())
        pressed = self.workload((T0 + 3.9 * HOUR).isoformat())
        assert choose(Deadline(), busy, new, workload=relaxed) == ("old",)
        assert choose(Deadline(), busy, new, workload=pressed) == ("new",)
        assert choose(Deadline(), busy, new, workload=self.workload("")) == ("new",)

    def test_a_deadline_that_is_no_time_is_told(self):
        with pytest.raises(ValueError, match=r'multiqueue.dev/deadline: "tomorrow" is no time'):
            choose(Deadline(), *self.clusters(), workload=self.workload("tomorrow"))
