"""ConversionReviews as somebody hostile writes them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.crd.kinds import KINDS
from multiqueue.webhooks.conversion import API_VERSION, answer_conversion, read_conversion
from multiqueue.webhooks.review import MalformedReviewError
from tests.fuzz.reviews import FILES, OBJECTS, VALUES, assert_short
from tests.fuzz.runs import LONG, SHORT

SECONDS = 2.0
VERSIONS = st.sampled_from(["kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"])
OURS = st.builds(
    lambda kind, version, rest: {"kind": kind, "apiVersion": version, **rest},
    st.sampled_from(sorted(each.kind for each in KINDS)),
    VERSIONS,
    OBJECTS,
)


def check(body: bytes) -> None:
    """Nothing but a refusal or an answer comes out, in time."""
    began = time.process_time()
    try:
        answer = orjson.loads(asyncio.run(answer_conversion(read_conversion(body))))
        assert answer["response"]["result"]["status"] in {"Success", "Failure"}
    except MalformedReviewError as error:
        assert_short(error)
    assert time.process_time() - began < SECONDS


def write(request: Any) -> bytes:
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "ConversionReview", "request": request})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_was_found_before_is_answered(file: Path) -> None:
    check(file.read_bytes())


@SHORT
@given(VALUES | st.fixed_dictionaries({"uid": st.just("u"), "objects": VALUES}))
def test_any_request_is_refused_or_answered(request: Any) -> None:
    check(write(request))


@SHORT
@given(VERSIONS, st.lists(OURS | VALUES, max_size=3))
def test_any_objects_are_converted_or_refused(version: str, objects: list[Any]) -> None:
    check(write({"uid": "u", "desiredAPIVersion": version, "objects": objects}))


@pytest.mark.fuzz
@LONG
@given(VERSIONS, st.lists(OURS | VALUES, max_size=3))
def test_any_objects_for_long(version: str, objects: list[Any]) -> None:
    check(write({"uid": "u", "desiredAPIVersion": version, "objects": objects}))
