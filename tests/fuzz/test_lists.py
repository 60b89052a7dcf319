"""Pages of lists, and the objects in them, as a hostile worker writes them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.kube.errors import KubeError
from multiqueue.kube.resources import JOBS
from multiqueue.kube.wire import build_loader, parse_page, read_answer
from multiqueue.lib.bounded_json import MAX_LEVELS, is_deeper
from tests.fuzz.answers import JOB, WORKLOAD, cuts, encode, mutants
from tests.fuzz.runs import LONG, SHORT

PAGE = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [JOB, WORKLOAD]}
PAGES = mutants(PAGE).map(encode).flatmap(cuts) | st.binary()
OBJECTS = mutants(JOB, WORKLOAD).map(encode).flatmap(cuts) | st.binary()
load = build_loader(JOBS)


def read_page(body: bytes) -> list[Any]:
    """Read a page as the client does; nothing but a `KubeError` may come of it."""
    with suppress(KubeError):
        page = parse_page(body, "LIST jobs")
        assert isinstance(page.metadata.resource_version, str)
        assert isinstance(page.metadata.continue_, str)
        return [read_answer(bytes(item), load, "LIST jobs") for item in page.items or ()]
    return []


def assert_reliable(obj: Any) -> None:
    """What is read can be relied upon: the types of its metadata, and its depth."""
    assert isinstance(obj, dict)
    metadata = obj.get("metadata") or {}
    for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp"):
        assert isinstance(metadata.get(name) or "", str)
    for name in ("labels", "annotations"):
        marks = metadata.get(name) or {}
        assert all(isinstance(value, str | None) for value in marks.values())
    assert not is_deeper(obj, MAX_LEVELS)


@SHORT
@given(PAGES)
def test_any_page_is_read_or_refused(body: bytes) -> None:
    for obj in read_page(body):
        assert_reliable(obj)


@SHORT
@given(OBJECTS)
def test_any_object_is_read_or_refused(body: bytes) -> None:
    with suppress(KubeError):
        assert_reliable(read_answer(body, load, "GET jobs"))


@pytest.mark.fuzz
@LONG
@given(PAGES, OBJECTS)
def test_any_list_for_long(page: bytes, body: bytes) -> None:
    for obj in read_page(page):
        assert_reliable(obj)
    with suppress(KubeError):
        assert_reliable(read_answer(body, load, "GET jobs"))


@pytest.mark.parametrize("opener", [b"[", b'{"a":', b'{"items":[', b'{"items":[{"metadata":'])
def test_nesting_without_end_is_refused(opener: bytes) -> None:
    assert read_page(opener * 100_000) == []
    with pytest.raises(KubeError):
        read_answer(opener * 100_000, load, "GET jobs")
