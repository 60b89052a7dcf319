from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from multiqueue.api.validation.field_error import required
from multiqueue.webhooks.review import (
    API_VERSION,
    MalformedReviewError,
    ReviewRequest,
    ReviewVerdict,
    read_review,
    write_review,
)


def review(**request: Any) -> bytes:
    body = {
        "uid": "u",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "operation": "CREATE",
        **request,
    }
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": body})


def answer(verdict: ReviewVerdict, request: ReviewRequest | None = None) -> dict:
    return orjson.loads(write_review(request or read_review(review(object={"a": 1})), verdict))[
        "response"
    ]


def test_reads_a_request() -> None:
    got = read_review(review(namespace="n", name="j", object={"a": 1}, oldObject=None))
    assert (got.uid, got.group, got.kind, got.namespace, got.name) == (
        "u",
        "batch",
        "Job",
        "n",
        "j",
    )
    assert (got.obj, got.old, got.subresource) == ({"a": 1}, {}, "")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"request": {}}', b'{"request": 3}'])
def test_refuses_what_is_no_review(body: bytes) -> None:
    with pytest.raises(MalformedReviewError):
        read_review(body)


def test_an_unchanged_object_needs_no_patch() -> None:
    assert answer(ReviewVerdict()) == {"uid": "u", "allowed": True}
    assert answer(ReviewVerdict(changed={"a": 1})) == {"uid": "u", "allowed": True}


def test_changes_are_a_patch() -> None:
    got = answer(ReviewVerdict(changed={"a": 2}))
    assert got["patchType"] == "JSONPatch"
    assert orjson.loads(base64.b64decode(got["patch"])) == [
        {"op": "replace", "path": "/a", "value": 2}
    ]


def test_errors_are_a_status_with_causes() -> None:
    request = read_review(review(object={"metadata": {"name": "j"}}))
    got = answer(ReviewVerdict(errors=[required("spec")]), request)
    assert not got["allowed"]
    assert got["status"]["details"]["causes"][0]["field"] == "spec"
    assert (got["status"]["code"], got["status"]["message"]) == (403, "spec: Required value")


def test_long_warnings_are_cut() -> None:
    (warning,) = answer(ReviewVerdict(warnings=["x" * 999]))["warnings"]
    assert len(warning) == 256
