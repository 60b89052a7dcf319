"""Values that strangers put into reviews."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

CORPUS = Path(__file__).parents[1] / "corpus" / "reviews"
FILES = sorted(CORPUS.glob("*.json"))

NAMES = st.sampled_from(
    [
        "metadata",
        "labels",
        "annotations",
        "deletionTimestamp",
        "spec",
        "status",
        "template",
        "containers",
        "resources",
        "requests",
        "podSets",
        "resourceGroups",
        "flavors",
        "kueue.x-k8s.io/queue-name",
        "multiqueue.dev/alternatives",
        "name",
        "conditions",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(["1", "1e999999999", "9" * 5_000, "500m", "2026-01-01T00:00:00Z", "a=b"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES | st.text(max_size=3), VALUES, max_size=4)


def assert_short(error: Exception) -> None:
    """A message is for people, and does not repeat what was sent."""
    assert 0 < len(str(error)) < 1_000


def nested(levels: int) -> Any:
    """A value of so many levels."""
    value: Any = 1
    for _ in range(levels):
        value = {"spec": value}
    return value
