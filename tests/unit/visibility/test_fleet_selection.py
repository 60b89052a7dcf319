"""Which rows a request wants, in which order, and which topics a feed has."""

from __future__ import annotations

import asyncio

import pytest

from multiqueue.views.standing import Standing, view_standing
from multiqueue.visibility.fleet.pace import Pace
from multiqueue.visibility.fleet.resources import LINES, STANDINGS, STORIES
from multiqueue.visibility.fleet.selection import (
    read_place,
    read_selection,
    select,
    write_continue,
)
from multiqueue.visibility.fleet.topics import Topic, read_interval, read_topics
from multiqueue.visibility.refusals import StatusRefusal
from tests.builders.workloads import NAMESPACE, admitted, make_workload


def standings() -> dict[str, Standing]:
    found = {}
    for number, name in enumerate(("alpha", "beta", "gamma")):
        workload = make_workload(name, labels={"size": str(number)}, priority=number)
        workload = admitted(workload, on="cq") if name == "beta" else workload
        facts = view_standing(workload, None, cluster_queue="cq", team="research")
        found[workload.metadata.key] = facts
    return found


async def chosen(**query: str) -> list[str]:
    known = standings()
    keys, _ = await select(read_selection(query), reversed(known), known.get)
    return [key.removeprefix(f"{NAMESPACE}/") for key in keys]


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ({}, ["alpha", "beta", "gamma"]),
        ({"sortBy": "-name"}, ["gamma", "beta", "alpha"]),
        ({"sortBy": "-priority"}, ["gamma", "beta", "alpha"]),
        ({"search": "GA"}, ["gamma"]),
        ({"labelSelector": "size!=1"}, ["alpha", "gamma"]),
        ({"fieldSelector": "phase=Admitted"}, ["beta"]),
        ({"fieldSelector": "status.phase!=Admitted,team==research"}, ["alpha", "gamma"]),
        ({"fieldSelector": "flavor=none"}, []),
        ({"limit": "2"}, ["alpha", "beta"]),
    ],
    ids=str,
)
async def test_selections(query: dict[str, str], want: list[str]) -> None:
    assert await chosen(**query) == want


@pytest.mark.parametrize("order", ["name", "-name", "priority", "-priority"])
async def test_pages_have_each_row_once_though_rows_go(order: str) -> None:
    known, seen, rest = standings(), list[str](), ""
    for _ in range(4):
        query = {"limit": "1", "sortBy": order, "continue": rest}
        page, rest = await select(read_selection(query), list(known), known.get)
        seen += page
        known.pop(page[0])
        if not rest:
            break
    assert sorted(seen) == sorted(standings())


async def test_a_page_of_another_order_is_refused() -> None:
    known = standings()
    _, rest = await select(read_selection({"limit": "1"}), known, known.get)
    other = read_selection({"limit": "1", "sortBy": "gpus", "continue": rest})
    with pytest.raises(StatusRefusal, match="another sortBy"):
        await select(other, known, known.get)


@pytest.mark.parametrize("forged", ["", "a/one", -5, 1e300, 0.5], ids=repr)
def test_a_page_that_begins_at_no_place_is_refused(forged: object) -> None:
    with pytest.raises(StatusRefusal, match="continue: Invalid value") as refused:
        read_place({"continue": write_continue((forged, "a/one"))})
    assert refused.value.code == 400
    assert read_place({"continue": write_continue((5, ""))}) == 5


def test_the_row_has_the_columns_of_the_feed() -> None:
    for facts in standings().values():
        assert tuple(facts.status(None, None, "")) == STANDINGS.columns


# ---------------------------------------------------------------- topics


def test_topics_name_what_they_follow() -> None:
    text = "standings,standings:ns,line:cq,line:ns/lq,story:ns/wl"
    assert read_topics({"topics": text}) == [
        Topic("standings", STANDINGS),
        Topic("standings:ns", STANDINGS, namespace="ns"),
        Topic("line:cq", LINES, name="cq"),
        Topic("line:ns/lq", LINES, namespace="ns", name="lq"),
        Topic("story:ns/wl", STORIES, namespace="ns", name="wl"),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "jobs", "story", "story:wl", "line", "totals:x", "standings:a/b", ",".join("abcdefghi")],
)
def test_other_topics_are_refused(text: str) -> None:
    with pytest.raises(StatusRefusal, match="topics: "):
        read_topics({"topics": text})


@pytest.mark.parametrize(("text", "want"), [("", 0.25), ("100ms", 0.1), ("2s", 2.0), ("1.5s", 1.5)])
def test_intervals(text: str, want: float) -> None:
    assert read_interval({"interval": text}) == want


@pytest.mark.parametrize("text", ["99ms", "11s", "1", "-1s", "s", "1e3s"])
def test_other_intervals_are_refused(text: str) -> None:
    with pytest.raises(StatusRefusal, match="interval: "):
        read_interval({"interval": text})


async def test_ticks_are_skipped_while_the_loop_is_late() -> None:
    times = iter([0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0])  # three ticks are late by a second
    pace = Pace(0.0, asyncio.Event(), now=lambda: next(times))
    assert await pace.wait()
    assert pace.skipped == 3


async def test_a_reader_does_not_wait_for_ever_for_a_late_loop() -> None:
    times = iter(range(100))
    pace = Pace(0.0, asyncio.Event(), now=lambda: next(times))
    assert await pace.wait()
    assert pace.skipped == 20


async def test_streams_end_when_the_server_stops() -> None:
    closing = asyncio.Event()
    closing.set()
    assert not await Pace(1.0, closing).wait()
