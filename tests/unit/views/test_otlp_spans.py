"""The life of a Workload as spans: ids that stay the same, and attributes with bounds."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.views.otlp_spans import (
    MAX_VALUE,
    build_hold_spans,
    build_request,
    build_root_span,
    find_trace_id,
    is_sampled,
)
from multiqueue.views.usage import read_hold
from tests.builders.workloads import T0

UID = "5b8d3e49-8164-453e-8219-d5fe7c7c2708"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def make_finished(**metadata: Any) -> api.Workload:
    """A Workload that waited 5 s, was checked for 10 s and ran for 20 s on a worker, and failed."""
    steps = {"QuotaReserved": 5, "Admitted": 15, "PodsReady": 15, "Finished": 35}
    conditions = [
        {
            "type": type_,
            "status": "True",
            "reason": "Failed" if type_ == "Finished" else "r",
            "message": "",
            "lastTransitionTime": f"2026-01-01T00:00:{second:02}Z",
        }
        for type_, second in steps.items()
    ]
    meta = {"name": "wl", "namespace": "team", "uid": UID, **metadata}
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    status = {
        "conditions": conditions,
        "clusterName": "worker-a",
        "admission": {"clusterQueue": "cq", "podSetAssignments": []},
    }
    return decode(api.Workload, {"metadata": meta, "spec": {"queueName": "lq"}, "status": status})


def list_spans(workload: api.Workload) -> list[dict[str, Any]]:
    hold = read_hold(workload)
    assert hold is not None
    return list(build_hold_spans(workload, hold))


def read(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def test_phases_are_spans_with_the_worker_and_the_outcome_of_the_hold() -> None:
    workload = make_finished()
    spans = list_spans(workload)
    root = build_root_span(workload, T0)
    start = int(root["startTimeUnixNano"])
    got = [
        (
            span["name"],
            (int(span["startTimeUnixNano"]) - start) / 1e9,
            (int(span["endTimeUnixNano"]) - start) / 1e9,
        )
        for span in spans
    ]
    assert got == [("Queued", 0, 5), ("Checking", 5, 15), ("Admitted", 15, 15), ("Running", 15, 35)]
    assert {read(span)["multiqueue.worker"] for span in spans} == {"worker-a"}
    assert [read(span).get("multiqueue.outcome") for span in spans] == [None, None, None, "Failed"]
    assert [span["status"].get("code") for span in (*spans, root)] == [None, None, None, 2, 2]
    assert {span["parentSpanId"] for span in spans} == {root["spanId"]}


def test_spans_have_neither_labels_nor_annotations_and_long_names_are_cut() -> None:
    workload = make_finished(labels={"a": "s3cret"}, annotations={"b": "s3cret"}, name="w" * 250)
    told = build_request([*list_spans(workload), build_root_span(workload, T0)])
    assert "s3cret" not in str(told)
    assert read(list_spans(workload)[0])["multiqueue.workload"] == "w" * MAX_VALUE


def test_the_trace_is_the_uid_and_what_is_no_uid_has_one_too() -> None:
    assert find_trace_id(UID) == UID.replace("-", "")
    assert find_trace_id("x") == find_trace_id("x") != find_trace_id("y")
    assert len(find_trace_id("x")) == 32


def test_a_share_of_the_workloads_is_sampled_and_always_the_same_ones() -> None:
    uids = [str(uuid.UUID(int=number)) for number in range(2000)]
    sampled = [uid for uid in uids if is_sampled(uid, 0.1)]
    assert 150 < len(sampled) < 250
    assert set(sampled) < {uid for uid in uids if is_sampled(uid, 0.2)}
    assert [is_sampled(UID, share) for share in (0.0, 1.0)] == [False, True]


@pytest.mark.parametrize(
    ("header", "links"),
    [
        (PARENT, [{"traceId": PARENT.split("-")[1], "spanId": PARENT.split("-")[2]}]),
        ("", []),
        ("00-nonsense-b7ad6b7169203331-01", []),
        (PARENT + "\n", []),
    ],
)
def test_a_malformed_traceparent_is_ignored(header: str, links: list[Any]) -> None:
    assert build_root_span(make_finished(), T0, header)["links"] == links
