"""What dispatchers/README.md and docs/dispatchers show works as it stands there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from multiqueue_dispatchers.filters import FILTERS
from multiqueue_dispatchers.score import CLAIM_AFTER, PASSING, RACE
from multiqueue_dispatchers.scorers import WEIGHTS

from multiqueue.api.durations import parse_duration
from multiqueue.plugins import ClusterView, Dispatcher
from multiqueue.plugins.testing import (
    T0,
    assert_dispatcher_contract,
    make_cluster,
    make_view,
    make_workload,
)

ROOT = Path(__file__).parents[3]
README = ROOT / "dispatchers" / "README.md"
RECIPES = ROOT / "docs" / "dispatchers" / "how-to.md"


def read_code(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def run_recipes() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in read_code(RECIPES):
        exec(block, names)
    return names


def test_the_shortest_dispatcher_is_complete():
    (code,) = read_code(README)
    assert len(code.strip().splitlines()) <= 8
    names: dict[str, Any] = {}
    exec(code, names)
    assert_dispatcher_contract(names["FewestRunning"]())


def test_every_recipe_keeps_the_contract_and_its_tests_pass():
    names = run_recipes()
    made = [each for each in names.values() if hasattr(each, "nominate") and each is not Dispatcher]
    assert len(made) >= 4
    for each in made:
        assert_dispatcher_contract(each())
    ran = [name for name in names if name.startswith("test_")]
    for name in ran:
        names[name]()
    assert len(ran) == 2


class TestWishes:
    @staticmethod
    def make(name: str) -> Dispatcher:
        made: Dispatcher = run_recipes()[name]()
        assert_dispatcher_contract(made)
        return made

    def test_by_day_a_team_stays_in_its_zone_and_others_go_where_most_h100s_are_free(self):
        clusters = [
            make_cluster("a100", flavor="a100", cluster_labels={"zone": "prod"}),
            make_cluster("h100-1", flavor="h100", used=2),
            make_cluster("h100-2", flavor="h100", used=1),
        ]

        def choose(namespace: str, hour: int) -> tuple[str, ...]:
            workload, now = make_workload(namespace=namespace), T0.replace(hour=hour)
            view = make_view(clusters=clusters, workload=workload, now=now)
            return self.make("OfficeHours").nominate(view).clusters

        assert choose("training", hour=8) == ("a100",)  # nine o'clock in Berlin
        assert choose("training", hour=7) == choose("research", hour=8) == ("h100-2",)

    def test_the_cheapest_that_starts_within_ten_minutes_is_taken_else_the_soonest(self):
        def choose(*clusters: ClusterView) -> tuple[str, ...]:
            return self.make("CheapestSoon").nominate(make_view(clusters=clusters)).clusters

        def cluster(name: str, price: int, minutes: int | None = None) -> ClusterView:
            starts_in = None if minutes is None else timedelta(minutes=minutes)
            return replace(make_cluster(name, starts_in=starts_in), prices={"gpu": price})

        assert choose(cluster("dear", 9), cluster("cheap", 1, minutes=10)) == ("cheap",)
        assert choose(cluster("dear", 9), cluster("cheap", 1, minutes=11)) == ("dear",)
        assert choose(cluster("later", 1, minutes=60), cluster("sooner", 9, 20)) == ("sooner",)


def test_every_built_in_name_is_listed():
    from importlib.metadata import entry_points

    text = README.read_text()
    ours = [p.name for p in entry_points(group="multiqueue.dispatchers") if "multiqueue" in p.value]
    assert ours
    assert all(f"`{name}`" in text for name in ours)


def test_every_scorer_and_filter_is_listed_with_its_weight():
    text = README.read_text()
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (\d+) \|", text, flags=re.MULTILINE))
    assert (rows.pop("race"), rows.pop("passing")) == (str(RACE), str(PASSING))
    after = re.search(r"^\| `claimAfter` \| (\w+) \|", text, flags=re.MULTILINE)
    assert after is not None
    assert parse_duration(after[1]) == CLAIM_AFTER
    assert {name: int(weight) for name, weight in rows.items()} == dict(WEIGHTS)
    assert all(f"`{name}`" in text for name in FILTERS)
