"""Each reader of a short text that somebody else writes: a value, or its own error, soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.alternatives import parse_alternatives
from multiqueue.api.cluster_orders import parse_drain, parse_rate
from multiqueue.api.cluster_taints import parse_taints, parse_tolerations
from multiqueue.api.conditions import MAX_MESSAGE
from multiqueue.api.declarations import parse_data, parse_prices, parse_runtime, parse_speeds
from multiqueue.api.durations import parse_duration
from multiqueue.api.names import RAN_ON
from multiqueue.api.ran_on import read_ran_on
from multiqueue.api.v1beta2.meta import parse_time as parse_meta_time
from multiqueue.capacity.quota_automation import QUOTA_PERCENT, read_percent
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.importing.mapping import parse_pairs
from multiqueue.embedded.cluster.indexes import parse_indexes
from multiqueue.embedded.cluster.nodes import parse_node_pool
from multiqueue.embedded.server.field_selectors import parse_field_selector
from multiqueue.embedded.server.lists import parse_revision
from multiqueue.embedded.server.query import parse_int64
from multiqueue.embedded.server.routes import find_resource, parse_route
from multiqueue.embedded.server.status import StatusError
from multiqueue.jobs.declared.expressions import (
    BadExpressionError,
    NoValueError,
    Wanted,
    compile_expressions,
)
from multiqueue.jobs.framework.fields import parse_path
from multiqueue.kube.server_words import clean_words
from multiqueue.lib.formats import parse_time
from multiqueue.lib.jsonpath import JsonPathError, compile_path
from multiqueue.lib.quantity import parse_quantity
from multiqueue.lib.selectors import parse_label_selector
from multiqueue.lib.server_address import parse_server
from multiqueue.model.disruption_policy import parse_last_checkpoint
from multiqueue.runtime.addresses import parse_bind_address
from tests.fuzz.reviews import assert_short
from tests.fuzz.runs import LONG, SHORT

SECONDS = 2.0
"""Of CPU time."""
LARGE = 60_000


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader, the errors that it documents, and texts that it takes."""

    read: Callable[[str], Any]
    seeds: tuple[str, ...]
    errors: tuple[type[Exception], ...] = field(default=(ValueError,))


def read_expression(text: str) -> Any:
    """Compile a CEL expression of a JobKind, and evaluate it for an object."""
    compiled = compile_expressions([Wanted("spec.states.active", text, "bool")])
    return [each.value({"self": OBJECT}) for each in compiled.values()]


OBJECT = {"spec": {"n": 1, "items": ["a"]}, "status": {"conditions": [{"type": "A"}]}}
FAR = ("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00")
"""The calendar of `datetime` does not have these times in UTC."""
READERS = {
    "quantity": Reader(parse_quantity, ("500m", "1Gi", "1e3", "0.5", "-1k", "1E", "+.5")),
    "duration": Reader(parse_duration, ("1h30m", "90s", "1.5h", "-1ms", "300us", "0")),
    "time": Reader(parse_time, ("2026-01-01T00:00:00.5+01:00", *FAR)),
    "time of a condition": Reader(parse_meta_time, ("2026-01-01T00:00:00Z", "", *FAR)),
    "last checkpoint": Reader(parse_last_checkpoint, ("2026-01-01T00:00:00+23:59", *FAR), ()),
    "label selector": Reader(parse_label_selector, ("a=b,c!=d", "a in (b,c),!d", "x notin (y)")),
    "field selector": Reader(
        parse_field_selector, ("metadata.name=a,spec.x!=b\\,", "a==b"), (StatusError,)
    ),
    "jsonpath": Reader(
        compile_path,
        (".a.b", "{.items[*].x}", ".c[?(@.type=='A')].s", "$['a'][0:2]", "..x"),
        (JsonPathError,),
    ),
    "path of a field": Reader(parse_path, ("spec.template", "metadata.labels['a.b/c']"), ()),
    "route": Reader(parse_route, ("/api/v1/namespaces/n/pods/p/log", "/apis/a/v1/b/c"), ()),
    "resource": Reader(find_resource, ("/apis/a/v1/namespaces/n/b/c/status",), ()),
    "revision": Reader(parse_revision, ("0", "12"), (StatusError,)),
    "integer": Reader(parse_int64, ("0", "-12"), (StatusError, ValueError)),
    "alternatives": Reader(parse_alternatives, ("h100=4,b200=2", "workers:h100=4")),
    "drain": Reader(
        parse_drain, ("true", "rate=10/min,at-once=4,not-before=2026-01-01T12:00:00Z,force")
    ),
    "rate": Reader(parse_rate, ("10/h", "1/min", "5")),
    "taints": Reader(parse_taints, ("a=b:NoSchedule", "a:NoSchedule,c=d:PreferNoSchedule")),
    "tolerations": Reader(parse_tolerations, ("a=b:NoSchedule", "a", "*")),
    "runtime": Reader(parse_runtime, ("2h", "90m")),
    "speeds": Reader(parse_speeds, ("a100=1.5,h100=2", "*=0.1")),
    "prices": Reader(parse_prices, ("a100=1.5", "h100=0")),
    "data": Reader(parse_data, ("a,b", "s3://a/b")),
    "percent": Reader(lambda text: read_percent({QUOTA_PERCENT: text}), ("150", "100")),
    "ran on": Reader(lambda text: read_ran_on({RAN_ON: text}, "t"), ("t main=4 main:cpu=a",), ()),
    "pairs of an option": Reader(
        lambda text: parse_pairs([text], "--x"), ("a=b,c=d",), (UsageProblem,)
    ),
    "indexes": Reader(parse_indexes, ("1,3-5", "0"), ()),
    "node pool": Reader(parse_node_pool, ("2xa100/8,a=b", "l4"), (ValueError,)),
    "address of a server": Reader(parse_server, ("https://a:6443", "https://[::1]")),
    "bind address": Reader(parse_bind_address, (":8080", "127.0.0.1:0", "[::1]:1", "0")),
    "words of a server": Reader(clean_words, ("token: abc", "\x1b[31mred", "Bearer x"), ()),
    "expression": Reader(
        read_expression,
        ("self.spec.n > 0", "has(self.a) ? true : self.spec.items.exists(i, i == 'a')"),
        (BadExpressionError, NoValueError),
    ),
}
PARTS = st.sampled_from([*"a=,:;-10/@ ∞٣()[].*?!{}TZ+%\n\x00\\", "'", '"', "e9", "Gi", "9" * 99])
PIECES = st.lists(PARTS, max_size=8).map("".join)
NAMES = sorted(READERS)


@st.composite
def texts(draw: st.DrawFn, name: str) -> str:
    """A text that was right, with something put in, left out or said again; or any text."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | PIECES)
    seed = draw(st.sampled_from(READERS[name].seeds))
    begin = draw(st.integers(0, len(seed)))
    end = draw(st.integers(begin, len(seed)))
    return seed[:begin] + draw(PIECES) + seed[end:] + draw(st.sampled_from(["", "", seed]))


def check(name: str, text: str) -> None:
    reader = READERS[name]
    began = time.process_time()
    try:
        reader.read(text)
    except reader.errors as error:
        check_error(error, text)
    assert time.process_time() - began < SECONDS, name


def check_error(error: Exception, text: str) -> None:
    if isinstance(error, StatusError):
        assert error.code < 500
    elif isinstance(error, BadExpressionError):
        assert len(str(error)) < MAX_MESSAGE  # a line for each mistake that CEL found
    elif len(text) < 200:
        assert_short(error)


CASES = st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), texts(name)))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_reader_takes_is_read(name: str) -> None:
    for seed in READERS[name].seeds:
        if seed not in FAR:
            READERS[name].read(seed)


@pytest.mark.parametrize("text", FAR)
def test_a_time_that_is_none_in_utc_is_refused(text: str) -> None:
    """It was an OverflowError: one annotation of a tenant was enough."""
    for read in (parse_time, parse_meta_time, lambda far: parse_drain(f"not-before={far}")):
        with pytest.raises(ValueError, match=r"out of range|use a time such as"):
            read(text)
    assert parse_last_checkpoint(text) is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("piece", ["9", "a,", "a=1,", "(", "[", "-", ".a", "{", "1", " "])
def test_a_large_text_is_read_or_refused_soon(name: str, piece: str) -> None:
    check(name, piece * (LARGE // len(piece)))


@settings(SHORT, max_examples=25)
@given(st.data())
def test_any_text_is_read_or_refused(data: st.DataObject) -> None:
    for name in NAMES:
        check(name, data.draw(texts(name)))


@pytest.mark.fuzz
@LONG
@given(CASES)
def test_any_text_for_long(case: tuple[str, str]) -> None:
    check(*case)
