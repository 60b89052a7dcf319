from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.kube.store import ObjectKeyAndVersion, Store, identify, parse_version


def by_labels(obj: set[str]) -> set[str]:
    return obj


def test_objects_are_found_by_every_value_of_an_index() -> None:
    store: Store[set[str]] = Store({"label": by_labels})
    store.put("a", {"x", "y"})
    store.put("b", {"y"})
    assert store.by_index("label", "y") == [{"x", "y"}, {"y"}]
    store.put("a", {"z"})
    assert store.by_index("label", "y") == [{"y"}]
    assert store.by_index("label", "x") == []
    store.remove("b")
    assert store.by_index("label", "y") == []


def test_an_index_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Store[str]({}).by_index("nope", "x")


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.sets(st.sampled_from("xyz")))))
def test_an_index_always_agrees_with_the_objects(steps: list[tuple[str, set[str] | None]]) -> None:
    store: Store[set[str]] = Store({"label": by_labels})
    want: dict[str, set[str]] = {}
    for key, labels in steps:
        if labels is None:
            if want.pop(key, None) is not None:
                store.remove(key)
        else:
            want[key] = labels
            store.put(key, labels)
    assert {k: store.get(k) for k in store.keys()} == want  # noqa: SIM118
    for label in "xyz":
        got = sorted(map(sorted, store.by_index("label", label)))
        assert got == sorted(sorted(labels) for labels in want.values() if label in labels)


METADATA = {"namespace": "n", "name": "a", "uid": "u"}


@pytest.mark.parametrize(
    "obj",
    [
        {"metadata": {**METADATA, "resourceVersion": "7"}},
        SimpleNamespace(metadata=SimpleNamespace(**METADATA, resource_version="7")),
    ],
    ids=["a dict", "a typed object"],
)
def test_key_and_version_are_read_from(obj: Any) -> None:
    assert identify(obj) == ObjectKeyAndVersion("n/a", 7, "u")


def test_a_cluster_scoped_object_is_known_by_its_name() -> None:
    assert identify({"metadata": {"name": "a"}}) == ObjectKeyAndVersion("a", 0, "")


@pytest.mark.parametrize(
    ("text", "want"), [("12", 12), ("", 0), (None, 0), ("abc", 0), ("-1", 0), ("1.5", 0)]
)
def test_what_is_no_version_counts_as_none(text: str | None, want: int) -> None:
    assert parse_version(text) == want
