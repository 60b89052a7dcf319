"""Whatever a client sends, the kinds of the API server answer; they never break."""

import copy
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiqueue.embedded.server.kinds import AdmissionRefused, Kind
from multiqueue.embedded.server.schema import admit
from multiqueue.embedded.server.table import render
from multiqueue.embedded.server.validation import validate
from tests.unit.embedded.server.kind_builders import BUILTIN, T0, UID, RequestWorld

STORED = [kind for kind in BUILTIN if kind.hooks.respond is None]
TEXTS = ["a", "b", "Never", "Always", "x.io/a", "", "Exists", "In", "Indexed", "https://a.b/c", "*"]
ODDITIES: list[Any] = [None, "x", 1, [], {}, True, [None], {"a": None}]
OPEN: list[Any] = [{}, {"type": "object"}, {"type": "object", "properties": {"a": {"type": "x"}}}]


def sample(random: Random, schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A value of the right types, often senseless otherwise."""
    if "x-kubernetes-int-or-string" in schema:
        return random.choice([1, "1", "50%", "1Gi"])
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return copy.deepcopy(random.choice(OPEN))
    match schema.get("type"):
        case "object" if "properties" in schema:
            return sample_fields(random, schema, depth)
        case "object":
            values = schema["additionalProperties"]
            keys = random.sample(["a", "cpu", "nvidia.com/gpu"], random.randint(0, 2))
            return {key: sample(random, values, depth + 1) for key in keys}
        case "array":
            return [sample(random, schema["items"], depth + 1) for _ in range(random.randint(0, 2))]
        case "integer":
            return random.choice([0, 1, 2, -1, 70000])
        case "boolean":
            return random.random() < 0.5
    formats = {"date-time": "2026-01-01T00:00:00Z", "byte": "eA=="}
    return formats.get(schema.get("format", "").removeprefix("micro-"), random.choice(TEXTS))


def sample_fields(random: Random, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    needed = schema.get("required", ())
    return {
        name: sample(random, inner, depth + 1)
        for name, inner in schema["properties"].items()
        if depth < 9 and random.random() < (0.9 if name in needed else 0.5 if depth < 3 else 0.15)
    }


def spoil(random: Random, value: Any) -> None:
    """Put an oddity in one place."""
    while isinstance(value, dict | list) and value:
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if random.random() < 0.3 or not isinstance(value[key], dict | list):
            value[key] = copy.deepcopy(random.choice(ODDITIES))
            return
        value = value[key]


def body_of(random: Random, kind: Kind) -> dict[str, Any]:
    body: dict[str, Any] = sample(random, kind.versions[0].schema)
    if random.random() < 0.3:
        spoil(random, body)
    metadata = body.get("metadata")
    named = {"name": "a", "namespace": "ns", "uid": UID}
    body["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), **named}
    return body


def created(random: Random, kind: Kind) -> dict[str, Any] | None:
    """What a create would store, however wrong; None: it is refused before."""
    admitted = admit(kind, kind.versions[0], body_of(random, kind))
    if admitted.bad_request is not None:
        return None
    try:
        kind.hooks.prepare_create(admitted.obj, RequestWorld())
    except AdmissionRefused:
        return None
    return admitted.obj


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.resource)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_any_body_is_judged_and_shown(kind: Kind, random: Random) -> None:
    obj, version = created(random, kind), kind.versions[0]
    if obj is None:
        return
    validate(kind, version, obj, None, RequestWorld())
    render(version, [obj], now=T0)
    for read in version.selectable_fields.values():
        assert isinstance(read(obj), str)


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.resource)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_any_change_is_judged(kind: Kind, random: Random) -> None:
    old, version = created(random, kind), kind.versions[0]
    admitted = admit(kind, version, body_of(random, kind))
    if old is None or admitted.bad_request is not None:
        return
    kind.hooks.prepare_update(admitted.obj, old, RequestWorld())
    validate(kind, version, admitted.obj, old, RequestWorld())
    if version.has_status:
        admitted.obj.setdefault("status", {})
        kind.hooks.prepare_status(admitted.obj, old, RequestWorld())
        validate(kind, version, admitted.obj, old, RequestWorld(), is_status=True)


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.resource)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_what_is_stored_needs_no_more_defaults(kind: Kind, random: Random) -> None:
    """Else an update without a change would change the object."""
    obj = created(random, kind)
    if obj is not None:
        assert admit(kind, kind.versions[0], copy.deepcopy(obj)).obj == obj
