from __future__ import annotations

import copy
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.conversion.convert import converters
from multiqueue.api.names import V1BETA1, V1BETA2
from multiqueue.webhooks.conversion import answer_conversion, read_conversion
from multiqueue.webhooks.review import MalformedReviewError

BOTH = f"{V1BETA1} or {V1BETA2}"


def review(*objects: Any, version: str = V1BETA2, uid: str = "u-1") -> bytes:
    request = {"uid": uid, "desiredAPIVersion": version, "objects": list(objects)}
    return orjson.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    )


def queue(name: str = "cq", version: str = V1BETA1, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


async def answer(body: bytes) -> dict[str, Any]:
    got = orjson.loads(await answer_conversion(read_conversion(body)))
    assert got["apiVersion"] == "apiextensions.k8s.io/v1"
    assert got["kind"] == "ConversionReview"
    response: dict[str, Any] = got["response"]
    assert response["uid"] == "u-1"
    return response


async def test_every_object_of_a_review_is_converted_in_its_place() -> None:
    response = await answer(review(queue("a", cohort="x"), queue("b", V1BETA2, cohortName="y")))
    assert response["result"] == {"status": "Success"}
    assert response["convertedObjects"] == [
        queue("a", V1BETA2, cohortName="x"),
        queue("b", V1BETA2, cohortName="y"),
    ]


async def test_unknown_fields_and_metadata_are_kept() -> None:
    metadata = {"name": "cq", "uid": "1", "managedFields": [{"manager": "m"}], "labels": {"a": "b"}}
    obj = {**queue(cohort="x", odd={"deep": [None, 1]}), "metadata": metadata, "more": 1}
    (got,) = (await answer(review(obj)))["convertedObjects"]
    assert got["metadata"] == metadata
    assert got["spec"] == {"cohortName": "x", "odd": {"deep": [None, 1]}}
    assert got["more"] == 1


async def test_many_objects_are_converted_in_order() -> None:
    response = await answer(review(*(queue(f"q{i}", cohort="x") for i in range(120))))
    names = [obj["metadata"]["name"] for obj in response["convertedObjects"]]
    assert names == [f"q{i}" for i in range(120)]


@pytest.mark.parametrize(
    "obj",
    [
        queue() | {"spec": "x"},
        queue(admissionChecks="a"),
        queue(resourceGroups=[{"flavors": [{}, 7]}]),
        queue(resourceGroups="x", preemption={"borrowWithinCohort": []}),
        queue() | {"status": "x"},
    ],
)
async def test_wrong_types_are_left_for_the_schema_to_find(obj: dict[str, Any]) -> None:
    response = await answer(review(copy.deepcopy(obj)))
    assert response["result"] == {"status": "Success"}
    (got,) = response["convertedObjects"]
    assert got["apiVersion"] == V1BETA2
    (back,) = (await answer(review(got, version=V1BETA1)))["convertedObjects"]
    assert {**back, "metadata": obj["metadata"]} == obj


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (
            {"apiVersion": "v1", "kind": "Pod"},
            'objects[0]: kind: "Pod" is not one of kueue.x-k8s.io',
        ),
        (
            queue(version="kueue.x-k8s.io/v1"),
            f'ClusterQueue "cq": apiVersion: "kueue.x-k8s.io/v1" is not served; use {BOTH}',
        ),
        (None, "objects[0]: must be an object"),
    ],
)
async def test_what_cannot_be_converted_is_named(obj: Any, words: str) -> None:
    response = await answer(review(obj))
    assert response["convertedObjects"] == []
    assert response["result"] == {
        "status": "Failure",
        "reason": "BadRequest",
        "code": 400,
        "message": words,
    }


async def test_a_version_that_is_not_served_is_refused() -> None:
    response = await answer(review(queue(), version="kueue.x-k8s.io/v1"))
    assert response["result"]["message"].startswith("desiredAPIVersion:")


GOOD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "ConversionReview",
    "request": {"uid": "1", "desiredAPIVersion": V1BETA2, "objects": []},
}


@pytest.mark.parametrize(
    "body",
    [
        "",
        [],
        {},
        {"request": 1},
        GOOD | {"apiVersion": "apiextensions.k8s.io/v1beta1"},
        GOOD | {"request": {**GOOD["request"], "uid": 1}},
        GOOD | {"request": {**GOOD["request"], "objects": {}}},
        GOOD | {"request": {**GOOD["request"], "desiredAPIVersion": None}},
    ],
)
def test_a_body_that_is_no_review_is_refused(body: Any) -> None:
    assert read_conversion(orjson.dumps(GOOD)).objects == []
    with pytest.raises(MalformedReviewError):
        read_conversion(orjson.dumps(body))


FIELDS = re.findall(
    r"\w+",
    """
    spec status metadata annotations podSets template containers topologyRequest admission name
    podSetAssignments topologyAssignment domains levels slices values count flavorFungibility
    preemption admissionChecks admissionChecksStrategy resourceGroups flavors resources
    nominalQuota fairSharing weight kubeConfig clusterSource priorityClassName resourceUsage
    priorityClassSource priorityClassRef valuesPerLevel podCounts individual universal
    """,
)
ANYTHING = st.recursive(
    st.sampled_from([None, True, 0, -1, 1.5, "", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    st.sampled_from([kind for _, kind in sorted(converters())]),
    st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=3),
    st.sampled_from([V1BETA1, V1BETA2]),
    st.sampled_from([V1BETA1, V1BETA2]),
)
async def test_whatever_comes_is_answered(
    kind: str, body: dict[str, Any], given_version: str, wanted: str
) -> None:
    obj = {**body, "apiVersion": given_version, "kind": kind}
    response = await answer(review(obj, version=wanted))
    assert response["result"]["status"] in {"Success", "Failure"}
