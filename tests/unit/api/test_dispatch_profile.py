"""What the API server takes as a DispatchProfile, by its definition alone."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.crd import load_crds
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import CanaryLimits, DispatchProfile
from multiqueue.embedded.server.custom import kind_from_crd
from multiqueue.embedded.server.schema import admit

DEFINITION = next(
    crd for crd in load_crds() if crd["metadata"]["name"] == "dispatchprofiles.multiqueue.dev"
)
KIND = kind_from_crd(DEFINITION)


def admitted(**spec: Any) -> Any:
    obj = {
        "apiVersion": "multiqueue.dev/v1alpha1",
        "kind": "DispatchProfile",
        "metadata": {"name": "gpu"},
        "spec": {"dispatcher": "score", **spec},
    }
    return admit(KIND, KIND.version("v1alpha1"), obj, field_validation="Strict")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"dispatcher": ""}, "spec.dispatcher"),
        ({"dispatcher": "two words"}, "spec.dispatcher"),
        ({"canary": {"dispatcher": "x"}}, "spec.canary.percent"),
        ({"canary": {"dispatcher": "x", "percent": 101}}, "spec.canary.percent"),
        ({"timeBudget": "soon"}, "spec.timeBudget"),
        ({"scorers": [{"name": "a"}, {"name": "a"}]}, "spec.scorers[1]"),
        ({"scorers": [{"name": "a", "weight": -1}]}, "spec.scorers[0].weight"),
        ({"filters": ["a", "a"]}, "spec.filters[1]"),
    ],
)
def test_what_cannot_be_a_profile_is_refused(spec: dict[str, Any], path: str) -> None:
    assert [str(cause) for cause in admitted(**spec).causes if path in str(cause)]


def test_what_is_left_out_has_a_default() -> None:
    got = admitted(canary={"dispatcher": "x", "percent": 5}, scorers=[{"name": "free"}])
    assert not got.causes
    assert not got.strict_errors
    spec = got.obj["spec"]
    assert (spec["timeBudget"], spec["scorers"]) == ("1s", [{"name": "free", "weight": 1}])
    profile = decode(DispatchProfile, got.obj)
    assert profile.spec.canary is not None
    assert profile.spec.canary.limits == CanaryLimits()


def test_arguments_are_free() -> None:
    arguments = {"weights": {"a": [1, {"b": None}]}, "text": "x"}
    assert admitted(arguments=arguments).obj["spec"]["arguments"] == arguments
