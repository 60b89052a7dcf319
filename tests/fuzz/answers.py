"""What a worker's API server may answer, if somebody hostile wrote it."""

from __future__ import annotations

import random
from typing import Any

import orjson
from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["9" * 5000, "٣", "\x1b[31m", "1e400", "main", "True"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
FIELDS = [
    "metadata",
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "spec",
    "status",
    "conditions",
    "type",
    "reason",
    "message",
    "active",
    "startTime",
    "podSets",
    "template",
    "containers",
    "resources",
    "requests",
    "suspend",
    "parallelism",
    "completions",
    "clusterName",
    "admission",
    "podSetAssignments",
    "code",
    "details",
    "causes",
    "retryAfterSeconds",
    "items",
    "continue",
    "object",
    "kind",
    "apiVersion",
    "field",
]


def mutate(value: Any, wanted: random.Random, junk: Any) -> Any:
    """Return a value with something of it replaced, dropped, doubled or nested deep."""
    if isinstance(value, dict) and value and wanted.random() < 0.85:
        key = wanted.choice(sorted(value))
        if wanted.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        if wanted.random() < 0.1:
            return {**value, wanted.choice(FIELDS): junk}
        return {**value, key: mutate(value[key], wanted, junk)}
    if isinstance(value, list) and value and wanted.random() < 0.7:
        at = wanted.randrange(len(value))
        return [*value[:at], mutate(value[at], wanted, junk), *value[at + 1 :]]
    if wanted.random() < 0.1:
        for _ in range(wanted.choice((3, 210, 900))):
            junk = [junk] if wanted.random() < 0.5 else {"a": junk}
    return junk


@st.composite
def mutants(draw: st.DrawFn, *seeds: Any) -> Any:
    """An answer of a real server with up to four faults."""
    value = draw(st.sampled_from(seeds))
    wanted = random.Random(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(1, 4))):
        value = mutate(value, wanted, draw(JSON))
    return value


def encode(value: Any) -> bytes:
    """JSON of any depth, and of integers of any size."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encode_deep(value).encode("utf-8", "replace")


def _encode_deep(value: Any) -> str:
    """Write what orjson does not, without recursion: `mutate` nests in one place only."""
    opened: list[str] = []
    while isinstance(value, list | dict) and len(value) == 1:
        if isinstance(value, list):
            opened.append("[")
            value = value[0]
        else:
            ((key, value),) = value.items()
            opened.append("{" + orjson.dumps(key).decode() + ":")
    if isinstance(value, dict):
        inner = ",".join(f"{orjson.dumps(k).decode()}:{_encode_deep(v)}" for k, v in value.items())
        text = "{" + inner + "}"
    elif isinstance(value, list):
        text = "[" + ",".join(map(_encode_deep, value)) + "]"
    elif isinstance(value, int):
        text = str(value)
    else:
        text = orjson.dumps(value).decode()
    closed = "".join("]" if each == "[" else "}" for each in reversed(opened))
    return "".join(opened) + text + closed


def cuts(body: bytes) -> st.SearchStrategy[bytes]:
    """A body, whole, cut off, or with a few bytes changed."""
    whole = st.just(body)
    cut = st.integers(0, len(body)).map(lambda at: body[:at])
    spoilt = st.tuples(st.integers(0, max(0, len(body) - 1)), st.binary(max_size=3)).map(
        lambda change: body[: change[0]] + change[1] + body[change[0] + 1 :]
    )
    return whole | cut | spoilt


WORKLOAD = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {
        "name": "train",
        "namespace": "team-a",
        "uid": "u-1",
        "resourceVersion": "41",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"kueue.x-k8s.io/multikueue-origin": "multikueue"},
        "annotations": {"multiqueue.dev/manager": "uid"},
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}],
    },
    "spec": {
        "queueName": "lq",
        "active": True,
        "priority": 5,
        "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": []}}}],
    },
    "status": {
        "conditions": [
            {
                "type": "Admitted",
                "status": "True",
                "reason": "Admitted",
                "message": "admitted",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
        "admission": {
            "clusterQueue": "cq",
            "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}, "count": 2}],
        },
    },
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "team-a",
        "uid": "u-2",
        "resourceVersion": "42",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "kueue.x-k8s.io/multikueue-origin": "multikueue",
            "kueue.x-k8s.io/prebuilt-workload-name": "train-workload",
        },
        "annotations": {"kueue.x-k8s.io/prebuilt-workload-name": "train-workload"},
    },
    "spec": {
        "suspend": False,
        "parallelism": 2,
        "completions": 2,
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
    "status": {
        "active": 2,
        "succeeded": 0,
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ],
    },
}
STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "message": "workloads is forbidden",
    "reason": "Forbidden",
    "details": {
        "name": "train",
        "kind": "workloads",
        "causes": [{"reason": "FieldValueInvalid", "message": "no", "field": "spec"}],
        "retryAfterSeconds": 3,
    },
    "code": 403,
}
