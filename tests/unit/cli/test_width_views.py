"""With how many pods a gang with alternatives runs, as ``why`` tells it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.cli.views.explanation import explain
from multiqueue.cli.views.width import explain_width
from multiqueue.views.workloads import view_workload
from tests.unit.cli.builders import WHEN, condition, make_objects, make_workload

QUOTA, ADMITTED = condition("QuotaReserved"), condition("Admitted")
RESERVED = {"queue": "cq", "flavor": "gpu"}


def make_gang(*conditions: Any, text: str = "h100=4,b200=2", **more: Any) -> api.Workload:
    """Eight pods with a GPU each."""
    workload = make_workload("w", *conditions, gpus=8, **more)
    annotations = {names.ALTERNATIVES: text}
    return replace(workload, metadata=replace(workload.metadata, annotations=annotations))


def told(workload: api.Workload, ran_on: str) -> api.Workload:
    annotations = {**workload.metadata.annotations, names.RAN_ON: ran_on}
    return replace(workload, metadata=replace(workload.metadata, annotations=annotations))


HELD = make_gang(QUOTA, ADMITTED, admission=RESERVED)


@pytest.mark.parametrize(
    ("workload", "want", "gpus"),
    [
        (make_gang(), "8, or 2 on b200, 4 on h100", 8),
        (make_gang(QUOTA, admission=RESERVED), "8, or 2 on b200, 4 on h100", 8),
        (
            HELD,
            "all 8, because it got none of the hardware that needs fewer (2 on b200, 4 on h100)",
            8,
        ),
        (told(HELD, f"{WHEN} main=4"), "4 of 8, because it got h100", 4),
        (
            told(make_gang(QUOTA, admission=RESERVED), f"{WHEN} main=4"),
            "8, or 2 on b200, 4 on h100",
            8,
        ),
        (make_gang(text="h100=4,b200=8"), "8, or 4 on h100", 8),
        (make_gang(text="b200=8"), "", 8),
        (make_gang(text=""), "", 8),
        (make_gang(text="nonsense"), "", 8),
    ],
    ids=[
        "waits",
        "waits for a worker",
        "wide",
        "narrow",
        "not yet narrow",
        "one is no other",
        "none is another",
        "plain",
        "wrong",
    ],
)
def test_the_pods_are_told(workload: api.Workload, want: str, gpus: int) -> None:
    assert explain_width(workload) == want
    assert explain(make_objects(workload), workload).pods == want
    assert view_workload(workload).gpus == gpus


def test_several_sorts_of_pods_are_told_apart() -> None:
    workload = make_gang(text="main:h100=4")
    pod_sets = (*workload.spec.pod_sets, replace(workload.spec.pod_sets[0], name="server"))
    both = replace(workload, spec=replace(workload.spec, pod_sets=pod_sets))
    assert explain_width(both) == "main: 8, or 4 on h100"
