"""AdmissionReviews as somebody hostile writes them, up to the answer of each endpoint."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.config import Configuration, Integrations
from multiqueue.api.job_kinds import JOB_KINDS, SUPPORTED_FRAMEWORKS
from multiqueue.jobs.setup import build_registry
from multiqueue.webhooks.endpoints import Endpoints
from multiqueue.webhooks.guard.epochs import EpochBook
from multiqueue.webhooks.review import API_VERSION, MalformedReviewError, read_review, write_review
from tests.fuzz.reviews import FILES, OBJECTS, VALUES, assert_short, nested
from tests.fuzz.runs import LONG, SHORT
from tests.unit.webhooks.lookups import Queues

SECONDS = 2.0
"""Of CPU time; what is small here takes milliseconds."""
ALL_KINDS = Configuration(
    integrations=Integrations(frameworks=tuple(sorted(SUPPORTED_FRAMEWORKS))),
    feature_gates={row.gate: True for row in JOB_KINDS if row.gate and row.folder},
)
TABLE = Endpoints(
    Queues(multikueue=frozenset({"n/q"})), ALL_KINDS, build_registry(ALL_KINDS)
).table()
KINDS = {
    each.lower(): each
    for each in [
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "LocalQueue",
        "MultiKueueCluster",
        "MultiKueueConfig",
        "ResourceFlavor",
        "Topology",
        "Workload",
    ]
} | {row.kind.lower(): row.kind for row in JOB_KINDS}
GROUPS = {row.kind: row.group for row in JOB_KINDS}
PATHS = sorted(TABLE)
VERSIONS = st.sampled_from(["kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2", "batch/v1"])
OPERATIONS = st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"])


def check(path: str, body: bytes) -> None:
    """Nothing but a refusal or an answer comes out, in time."""
    began = time.process_time()
    try:
        review = read_review(body)
        answer = orjson.loads(write_review(review, TABLE[path](review)))
        assert answer["response"]["uid"] == review.uid
        EpochBook().judge(review)
    except MalformedReviewError as error:
        assert_short(error)
    assert time.process_time() - began < SECONDS


def write(path: str, version: str, operation: str, *objects: Any) -> bytes:
    kind = KINDS.get(path.rsplit("-", 1)[1], "Pod")  # of objects that are not queued: any
    obj, old = (
        {"apiVersion": version, "kind": kind, **each} if isinstance(each, dict) else each
        for each in objects
    )
    request = {
        "uid": "u",
        "kind": {"kind": kind, "group": GROUPS.get(kind, "kueue.x-k8s.io")},
        "operation": operation,
        "namespace": "n",
    }
    request |= {"object": obj, "oldObject": old}
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_was_found_before_is_answered(file: Path) -> None:
    for path in PATHS:
        check(path, file.read_bytes())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("levels", [150, 240, 900])
def test_depth_is_refused_or_survived(path: str, levels: int) -> None:
    try:
        body = write(path, "kueue.x-k8s.io/v1beta1", "CREATE", nested(levels), None)
    except orjson.JSONEncodeError:
        body = write(path, "v", "CREATE", {"spec": 7}, None)
        body = body.replace(b'"spec":7', b'"spec":' + b"[" * levels + b"]" * levels)
    check(path, body)


@SHORT
@given(st.sampled_from(PATHS), st.binary(max_size=200))
def test_any_bytes_are_refused(path: str, body: bytes) -> None:
    check(path, body)


@SHORT
@given(st.sampled_from(PATHS), VALUES)
def test_any_request_is_refused_or_answered(path: str, request: Any) -> None:
    head = {"apiVersion": API_VERSION, "kind": "AdmissionReview"}
    check(path, orjson.dumps({**head, "request": request}))


@SHORT
@given(st.sampled_from(PATHS), VERSIONS, OPERATIONS, OBJECTS | VALUES, OBJECTS | VALUES)
def test_any_object_is_refused_or_answered(
    path: str, version: str, operation: str, obj: Any, old: Any
) -> None:
    check(path, write(path, version, operation, obj, old))


@pytest.mark.fuzz
@LONG
@given(st.sampled_from(PATHS), VERSIONS, OPERATIONS, OBJECTS | VALUES, OBJECTS | VALUES)
def test_any_object_for_long(path: str, version: str, operation: str, obj: Any, old: Any) -> None:
    check(path, write(path, version, operation, obj, old))


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        (
            "/validate-kueue-x-k8s-io-v1beta2-multikueueconfig",
            {"clusters": [f"c{n}" for n in range(40_000)]},
        ),
        (
            "/validate-kueue-x-k8s-io-v1beta2-topology",
            {"levels": [{"nodeLabel": f"a.b/c{n}"} for n in range(40_000)]},
        ),
    ],
)
def test_many_names_do_not_take_quadratic_time(path: str, spec: Any) -> None:
    check(path, write(path, "kueue.x-k8s.io/v1beta2", "CREATE", {"spec": spec}, None))
