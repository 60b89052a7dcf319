"""A view that goes to a process piece by piece is, there, the view that was sent."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.dispatcher_host.frozen import FrozenDict, freeze
from multiqueue.dispatcher_host.isolation.frames import Ask, read_request, write_frame
from multiqueue.dispatcher_host.isolation.mirror import MOST_ROWS, Reader, RowWriter
from multiqueue.plugins import (
    ClusterView,
    CopyState,
    DispatchView,
    Forecast,
    QueueView,
    QuotaView,
    StartEstimate,
    StoppedWorkload,
)
from multiqueue.plugins.testing import T0, make_cluster, make_sample_views, make_view

names = st.sampled_from(["", "a", "b", "ü/x"])
numbers = st.integers(-(2**63), 2**63 - 1)
times = st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
spans = st.timedeltas(timedelta(0), timedelta(days=40_000))
amounts = st.dictionaries(st.tuples(names, names), numbers, max_size=2)


def mappings(values: Any) -> Any:
    return st.dictionaries(names, values, max_size=2)


starts = st.builds(StartEstimate, at=times, earliest=times, latest=times, ahead=numbers)
victims = st.builds(StoppedWorkload, key=names, queue=names, priority=numbers, lost=spans)
forecasts = st.builds(
    Forecast,
    reason=names,
    taken=amounts,
    borrowed=amounts,
    victims=st.lists(victims, max_size=2).map(tuple),
    left=amounts,
    start=st.none() | starts,
    largest=st.none() | numbers,
)
queues = st.builds(
    QueueView,
    name=names,
    quotas=st.dictionaries(st.tuples(names, names), st.builds(QuotaView, used=numbers), max_size=2),
    backlog=mappings(numbers),
)
clusters = st.builds(
    ClusterView,
    name=st.sampled_from("abcd"),
    labels=mappings(names),
    kinds=st.frozensets(names, max_size=2),
    queue=st.none() | queues,
    copy=st.sampled_from(CopyState),
    offered_at=st.none() | times,
    health=st.floats(0, 1),
    forecast=st.none() | forecasts,
    prices=mappings(numbers),
    data=st.frozensets(names, max_size=2),
)


class Process:
    """Both ends, and the way between them."""

    def __init__(self) -> None:
        self.writer, self.reader = RowWriter(), Reader()
        self.sent = 0

    def show(self, view: DispatchView) -> DispatchView:
        frame = write_frame(Ask(replace(view, clusters=()), self.writer.write(view.clusters)))
        self.sent = len(frame)
        request = read_request(frame[4:])
        assert isinstance(request, Ask)
        return replace(freeze(request.view), clusters=self.reader.read(request.rows))


def assert_frozen(value: object) -> None:
    """Assert that nothing in it can be changed."""
    assert not isinstance(value, list | set | bytearray)
    if isinstance(value, dict):
        assert type(value) is FrozenDict
        for each in value.values():
            assert_frozen(each)
    elif isinstance(value, tuple):
        for each in value:
            assert_frozen(each)
    elif is_dataclass(value):
        assert value.__dataclass_params__.frozen  # type: ignore[attr-defined]
        for field in fields(value):
            assert_frozen(getattr(value, field.name))


@given(st.lists(st.lists(clusters, max_size=4), min_size=1, max_size=4))
@settings(max_examples=30)
def test_what_is_seen_in_the_process_is_what_was_given(rounds: list[list[ClusterView]]) -> None:
    process = Process()
    for index, given_clusters in enumerate(rounds):
        view = make_view(clusters=given_clusters, now=T0 + timedelta(seconds=index))
        shown = process.show(view)
        assert shown == view
        assert_frozen(shown)


def test_samples_of_every_sort_arrive_one_after_another() -> None:
    process = Process()
    for _ in range(2):
        for view in make_sample_views():
            assert process.show(view) == view


def test_what_is_known_is_not_sent_again() -> None:
    process = Process()
    workers = [make_cluster(f"w{n:03}", labels={"region": "north"}) for n in range(100)]
    process.show(make_view(clusters=workers))
    all_of_it = process.sent
    workers[7] = replace(workers[7], running=3)
    process.show(make_view(clusters=workers))
    assert process.sent < all_of_it / 10


def test_a_value_that_is_changed_in_place_is_sent_again() -> None:
    labels = {"zone": "a"}
    process, cluster = Process(), replace(make_cluster("a"), labels=labels)
    process.show(make_view(clusters=[cluster]))
    labels["zone"] = "b"
    assert process.show(make_view(clusters=[cluster])).clusters[0].labels == {"zone": "b"}


def test_two_queues_of_a_cluster_are_known_beside_each_other() -> None:
    process, one = Process(), make_cluster("a")
    assert one.queue is not None
    two = replace(one, queue=replace(one.queue, name="other", pending=9))
    sent = []
    for cluster in (one, two, one, two):
        view = make_view(clusters=[cluster])
        assert process.show(view) == view
        sent.append(process.sent)
    assert max(sent[2:]) < min(sent[:2])


def test_it_begins_anew_before_it_grows_without_bound() -> None:
    process = Process()
    for index in range(0, 2 * MOST_ROWS, 256):
        view = make_view(clusters=[ClusterView(name=f"w{index + n}") for n in range(256)])
        assert process.show(view) == view
        assert len(process.reader.rows) < MOST_ROWS + 256


def test_what_nobody_wrote_cannot_be_read() -> None:
    writer, reader = RowWriter(), Reader()
    writer.write([make_cluster("a")])
    with pytest.raises(KeyError):
        reader.read(writer.write([make_cluster("a")]))
    (row,) = RowWriter().write([make_cluster("a")])
    wrong = msgspec.structs.replace(row, cluster=b"\x90")
    with pytest.raises(msgspec.ValidationError):
        reader.read_row(wrong)
