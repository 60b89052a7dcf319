"""Parts of the evaluation of CEL: names, paths, what expressions read."""

import pytest

from multiqueue.embedded.server.cel.declarations import Declarations
from multiqueue.embedded.server.cel.escape import escape
from multiqueue.embedded.server.cel.field_path import parse_field_path
from multiqueue.embedded.server.cel.paths import Mask, Reads
from multiqueue.embedded.server.cel.values import compile_values
from multiqueue.lib.cel.environment import check_environment
from multiqueue.lib.cel.expression import check
from tests.unit.embedded.server.cel_kinds import INT, STRING, list_of, map_of, struct

PART = struct(name=STRING, n=INT)
SCHEMA = struct(a=INT, b=PART, parts=list_of(PART), labels=map_of(STRING), maps=map_of(PART))


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("plain_Name1", "plain_Name1"),
        ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("namespaces", "namespaces"),
        ("1a", None),
        ("a b", None),
        ("", None),
        ("ä", None),
    ],
)
def test_names_as_expressions_write_them(name: str, want: str | None) -> None:
    assert escape(name) == want


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".a", "a"),
        (".b.name", "b.name"),
        ("['b']['name']", "b.name"),
        (".labels['x.y/z']", "labels[x.y/z]"),
        (".labels.x", "labels[x]"),
        (".labels['it\\'s']", "labels[it's]"),
        (".c", None),
        ("a", None),
        (".parts[0]", None),
        (".a.", None),
        (".labels['x", None),
    ],
)
def test_paths_of_fields(path: str, want: str | None) -> None:
    assert parse_field_path(path, SCHEMA) == want


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        ("self.a == 1", {"a": None}),
        ("has(self.b)", {"b": {}}),
        ("has(self.b.name) && self.b.n > 1", {"b": {"name": {}, "n": None}}),
        ("self == self", None),
        ("self.parts.all(p, p.n > 1 && has(p.name))", {"parts": {"*": {"n": None, "name": {}}}}),
        ("self.parts.exists(p, p == self.b)", {"parts": {"*": None}, "b": None}),
        ("size(self.parts) == self.parts.size()", {"parts": {"*": {}}}),
        ("self.parts[self.a].n == 1", {"a": None, "parts": {"*": {"n": None}}}),
        ("self.parts[self.parts[self.a].n].name == ''", {
            "a": None, "parts": {"*": {"n": None, "name": None}}
        }),
        ("self.labels.all(k, self.labels[k] == 'x')", {"labels": {"*": None}}),
        ("self.maps.all(k, v, v.n == 1 && k != '')", {"maps": {"*": {"n": None}}}),
        ("self.?b.?n.orValue(1) == 1", {"b": {"n": None}}),
        ("self.parts.map(p, p.name).exists(self, self == '')", {"parts": {"*": {"name": None}}}),
        ("1 == 1", {}),
    ],
)  # fmt: skip
def test_what_a_rule_reads(rule: str, want: Mask) -> None:
    declarations = Declarations()
    type_ = declarations.declare(SCHEMA)
    assert type_ is not None
    reads = Reads()
    checked = check(check_environment({"self": type_}, declarations.pool()), rule)
    reads.add(checked.tree, {"self": ("self",)})
    assert reads.mask("self") == want


def test_only_what_is_read_is_converted() -> None:
    convert = compile_values(SCHEMA, {"parts": {"*": {"n": None}}, "b": {}})
    value = {"a": 1, "b": {"name": "x"}, "parts": [{"n": 1, "name": "y"}], "labels": {"x": "y"}}
    assert convert(value) == {"b": {}, "parts": [{"n": 1}]}


def test_plain_values_are_taken_as_they_are() -> None:
    value = {"a": 1, "b": {"name": "x"}, "parts": [{"n": 1}]}
    assert compile_values(SCHEMA, None)(value) is value


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1h30m", 5_400 * 10**9),
        ("-1.5s", -1_500_000_000),
        ("3ms2us1ns", 3_002_001),
        ("0", 0),
    ],
)
def test_durations(text: str, nanos: int) -> None:
    convert = compile_values({"type": "string", "format": "duration"}, None)
    assert convert(text).ToNanoseconds() == nanos
