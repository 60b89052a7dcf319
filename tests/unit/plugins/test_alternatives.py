"""Gangs that need fewer pods on some hardware, beside queues of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from multiqueue.plugins import (
    ClusterView,
    FlavorView,
    Outlook,
    PodSetView,
    QueueView,
    QuotaView,
    ReservedFlavor,
    ResourceGroupView,
    cost_of,
    find_gain,
    find_refusal,
    judge,
    place,
    survey,
)
from multiqueue.plugins.alternatives import list_ways
from multiqueue.plugins.capacity import find_room
from multiqueue.plugins.limits import find_impossibility
from multiqueue.plugins.testing import GPU, make_cluster, make_view, make_workload

GANG = make_workload(pods=8, alternatives={"h100": 4})
LABELLED = {name: {"accelerator": name} for name in ("a100", "h100")}


def make_mixed(
    free: Mapping[str, int],
    most: Mapping[str, int] | None = None,
    *,
    labels: Mapping[str, Mapping[str, str]] = LABELLED,
) -> ClusterView:
    """A cluster with these flavors in one resource group, and what is free of them."""
    queue = QueueView(
        name="gpus",
        groups=(ResourceGroupView(resources=(GPU,), flavors=tuple(free)),),
        flavors={name: FlavorView(name=name, node_labels=labels.get(name, {})) for name in free},
        quotas={
            (name, GPU): QuotaView(nominal=16, available=count, most=(most or {}).get(name, 16))
            for name, count in free.items()
        },
    )
    return replace(make_cluster("mixed"), queue=queue)


@pytest.mark.parametrize(
    ("free", "want"),
    [
        ({"a100": 8, "h100": 8}, {("a100", GPU): 8}),
        ({"h100": 8, "a100": 8}, {("h100", GPU): 4}),
        ({"a100": 7, "h100": 4}, {("h100", GPU): 4}),
        ({"a100": 7, "h100": 3}, None),
    ],
    ids=["the first", "in the order of the queue", "the one with room", "none"],
)
def test_a_gang_is_placed_whole_on_one_hardware(free: dict, want: dict | None) -> None:
    cluster = make_mixed(free)
    assert cluster.queue is not None
    found = place(GANG, cluster.queue)

    assert (found.taken if found else None) == want


def test_fewer_pods_are_told() -> None:
    fit = judge(GANG, make_mixed({"a100": 7, "h100": 4}))

    assert (fit.outlook, fit.pods) == (Outlook.FITS, {"main": 4})
    assert fit.reason == f"fits: 4 of 4 free {GPU}, 4 pods on h100"


def test_it_waits_where_a_later_flavor_could_hold_it() -> None:
    fit = judge(GANG, make_mixed({"a100": 0, "h100": 0}, most={"a100": 4, "h100": 4}))

    assert fit.outlook is Outlook.WAITS
    assert fit.reason == f"waits: 4 {GPU} asked, 0 free, 4 pods on h100"


def test_too_large_is_said_of_the_fewest_pods() -> None:
    fits = {
        "w1": judge(GANG, make_mixed({"a100": 7, "h100": 3}, most={"a100": 7, "h100": 3})),
        "w2": judge(GANG, make_cluster(gpus=2, labels=LABELLED["h100"])),
    }

    assert (
        find_refusal(GANG, fits) == f"no worker can hold 4 x {GPU}: w1 has at most 3, w2 at most 2"
    )


def test_what_can_never_hold_eight_may_hold_four() -> None:
    small = make_cluster(gpus=4, labels=LABELLED["h100"]).queue
    other = make_cluster(gpus=4, labels=LABELLED["a100"]).queue
    assert small is not None
    assert other is not None

    assert not find_impossibility(GANG, small)
    assert str(find_impossibility(GANG, other)) == f"has at most 4 {GPU}, 8 asked"


def test_flavors_that_cannot_be_told_apart_need_what_the_worst_of_them_needs() -> None:
    """A copy asks for node labels; without any it may get either."""
    cluster = make_mixed({"h100": 8, "a100": 8}, labels={})
    assert cluster.queue is not None

    assert [way.pods for way in list_ways(GANG, cluster.queue)] == [{}, {}]
    alone = make_cluster(flavor="h100").queue
    assert alone is not None
    assert [way.pods for way in list_ways(GANG, alone)] == [{"main": 4}]


def test_the_reserved_hardware_alone_counts() -> None:
    (pod_set,) = GANG.pod_sets
    reserved = {GPU: ReservedFlavor(name="big", node_labels=LABELLED["a100"])}
    workload = replace(GANG, pod_sets=(replace(pod_set, reserved=reserved),))

    fit = judge(workload, make_mixed({"h100": 8, "a100": 8}))

    assert (fit.pods, fit.taken) == ({}, {("a100", GPU): 8})


def test_pods_of_other_sorts_take_what_they_like() -> None:
    launcher = PodSetView(name="launcher", count=2, requests={GPU: 1})
    workload = replace(GANG, pod_sets=(*GANG.pod_sets, launcher))
    cluster = make_mixed({"a100": 2, "h100": 4})
    assert cluster.queue is not None
    found = place(workload, cluster.queue)

    assert found is not None
    assert found.taken == {("h100", GPU): 4, ("a100", GPU): 2}


def test_devices_that_are_taken_are_paid() -> None:
    prices = {"a100": 2000, "h100": 5000}
    view = make_view(
        workload=GANG,
        clusters=[
            replace(make_cluster("a", flavor="a100", labels=LABELLED["a100"]), prices=prices),
            replace(make_cluster("h", flavor="h100", labels=LABELLED["h100"]), prices=prices),
            replace(
                make_cluster("full", flavor="h100", used=8, labels=LABELLED["h100"]), prices=prices
            ),
        ],
    )

    costs = {option.name: cost_of(GANG, option) for option in survey(view).options}

    assert costs == {"a": 16_000, "h": 20_000, "full": 20_000}


def test_a_gang_that_needs_half_gains_twice_as_much() -> None:
    """Beside jobs that are twice as fast there, with as many devices."""
    workload = replace(GANG, speeds={"h100": 1100})
    clusters = [make_cluster("h", flavor="h100", labels=LABELLED["h100"])]
    view = replace(make_view(workload=workload, clusters=clusters), usual_speeds={"h100": 2000})
    (option,) = survey(view).options

    assert find_gain(view, option) == 1100


def test_two_kinds_of_hardware_that_need_the_same_are_asked_for_one_by_one() -> None:
    """What they have in common is no label, and a copy that asks for none may get any."""
    gang = make_workload(pods=8, alternatives={"h100": 4, "b200": 4})
    names = ("a100", "h100", "b200")
    cluster = make_mixed(
        {"a100": 0, "h100": 0, "b200": 4}, labels={name: {"accelerator": name} for name in names}
    )
    assert cluster.queue is not None

    found = place(gang, cluster.queue)
    assert found is not None
    assert found.taken == {("b200", GPU): 4}
    way = find_room(gang, cluster.queue)
    assert way is not None
    assert (way.labels, way.pods) == ({"accelerator": "b200"}, {"main": 4})
