"""What a worker ran in terms of the manager's flavors, and how that is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.ran_on import AS_RESERVED, RanOn, format_ran_on, read_ran_on
from multiqueue.api.serde import decode
from multiqueue.capacity.workload_view import usage_of
from multiqueue.dispatch.execute.accounting import (
    Account,
    Substitution,
    account,
    find_substitutions,
)
from multiqueue.model.build_workload import build_workload
from multiqueue.plugins import FlavorView, QueueView
from tests.builders.queues import make_gpu_queue

GPU = "nvidia.com/gpu"
SINCE = "2026-01-01T00:00:00Z"
FLAVORS = {
    name: decode(api.ResourceFlavor, {"metadata": {"name": name}, "spec": {"nodeLabels": labels}})
    for name, labels in {
        "h100": {"gpu": "h100"},
        "a100": {"gpu": "a100"},
        "plain": {},
    }.items()
}


def make_charged(
    flavor: str, *, pods: int = 1, admitted: bool = True, **annotations: str
) -> api.Workload:
    usage = {GPU: str(4 * pods)}
    assignment = {
        "name": "main",
        "flavors": {GPU: flavor},
        "resourceUsage": usage,
        "count": pods,
    }
    conditions = [
        {"type": type_, "status": status, "lastTransitionTime": SINCE}
        for type_, status in (("QuotaReserved", "True"), ("Admitted", str(admitted)))
    ]
    admission = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    return decode(
        api.Workload,
        {
            "metadata": {"name": "w", "namespace": "ns", "annotations": annotations},
            "status": {"admission": admission, "conditions": conditions},
        },
    )


def compare(reserved: str, ran: Mapping[str, str], *flavors: str) -> list[tuple[str, str]]:
    """What ran, and what is charged, where a worker's flavor ``its`` has these labels."""
    worker = QueueView(name="cq", flavors={"its": FlavorView(name="its", node_labels=ran)})
    found = find_substitutions(
        make_charged(reserved),
        make_charged("its"),
        worker,
        decode(api.ClusterQueue, make_gpu_queue(dict.fromkeys(flavors, 8))),
        FLAVORS.get,
    )
    return [(each.ran, each.charged) for each in found]


@pytest.mark.parametrize(
    ("reserved", "ran", "want"),
    [
        ("h100", {"gpu": "h100"}, []),
        ("h100", {"gpu": "a100"}, [("its", "a100")]),
        ("h100", {"gpu": "b200"}, [("its", "")]),
        ("h100", {"zone": "a"}, []),
        ("h100", {}, []),
        ("plain", {"gpu": "a100"}, []),
    ],
    ids=[
        "the same",
        "another that the queue has",
        "another that it has not",
        "labels about something else",
        "no labels there",
        "no labels here",
    ],
)
def test_labels_tell_what_ran(reserved: str, ran: Mapping[str, str], want: list[tuple[str, str]]):
    assert compare(reserved, ran, "h100", "a100", "plain") == want


def test_it_is_told_in_words():
    one = Substitution(pod_set="main", resource=GPU, reserved="h100", ran="x", charged="a")
    words = 'on flavor "x" there, which is not the reserved "h100"'
    assert str(Account(substitutions=(one,))) == (
        f'{GPU} of pod set "main" runs {words}; charged is "a"'
    )
    alike = (replace(one, resource="cpu"), replace(one, resource="memory"))
    other = replace(one, pod_set="driver", resource="cpu", charged="")
    assert str(Account(substitutions=(*alike, other, one))) == (
        f'cpu, memory and {GPU} of pod set "main" run {words}; charged is "a"; '
        f'cpu of pod set "driver" runs {words}'
    )


def test_the_annotation_is_about_one_reservation():
    flavors = {("main", GPU): "a100", ("driver", "cpu"): "spot"}
    ran_on = RanOn(flavors=flavors, pods={"main": 4, "driver": 1})
    annotations = {names.RAN_ON: format_ran_on(SINCE, ran_on)}
    assert read_ran_on(annotations, SINCE) == ran_on
    assert read_ran_on(annotations, "2026-01-01T00:00:01Z") == AS_RESERVED
    assert read_ran_on({}, SINCE) == AS_RESERVED


@pytest.mark.parametrize(
    "text", ["", SINCE, f"{SINCE} nonsense", f"{SINCE} a:b", f"{SINCE} =x", f"{SINCE} main=-4"]
)
def test_what_makes_no_sense_is_left_out(text: str):
    assert read_ran_on({names.RAN_ON: text}, SINCE) == AS_RESERVED


@pytest.mark.parametrize(
    ("ran_on", "want"),
    [
        (RanOn(flavors={("main", GPU): "a100"}), {("a100", GPU): 32}),
        (RanOn(pods={"main": 4}), {("h100", GPU): 16}),
        (RanOn(flavors={("main", GPU): "a100"}, pods={"main": 2}), {("a100", GPU): 8}),
        (RanOn(pods={"main": 9}), {("h100", GPU): 32}),
    ],
    ids=["other hardware", "fewer pods", "both", "never more than reserved"],
)
def test_what_ran_is_what_is_in_use(ran_on: RanOn, want: Mapping[tuple[str, str], int]):
    annotation = format_ran_on(SINCE, ran_on)
    workload = make_charged("h100", pods=8, **{names.RAN_ON: annotation})
    reservation = build_workload(workload).reservation
    assert reservation is not None
    assert reservation.admission.usage() == want
    assert usage_of(workload) == want


def test_until_it_is_admitted_all_that_was_reserved_is_in_use():
    """Another worker may get it yet, and need all of it."""
    annotation = format_ran_on(SINCE, RanOn(pods={"main": 4}))
    workload = make_charged("h100", pods=8, admitted=False, **{names.RAN_ON: annotation})
    reservation = build_workload(workload).reservation
    assert reservation is not None
    assert reservation.admission.usage() == usage_of(workload) == {("h100", GPU): 32}


def test_fewer_pods_are_told_and_charged():
    """Whatever is known of the worker's queues; more than was reserved never is."""
    reserved = make_charged("h100", pods=8)
    found = account(reserved, make_charged("its", pods=4), None, None, FLAVORS.get)
    assert str(found) == 'pod set "main" runs with 4 of the 8 pods reserved'
    assert found.ran_on == RanOn(pods={"main": 4})
    assert not account(reserved, make_charged("its", pods=9), None, None, FLAVORS.get).ran_on
