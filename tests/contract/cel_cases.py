"""Expressions and what becomes of them: values that pass a rule, and values that do not."""

from typing import Any

INT = {"type": "integer"}
STRING = {"type": "string", "maxLength": 64}
DATE_TIME = {"type": "string", "format": "date-time"}
INTS = {"type": "array", "maxItems": 8, "items": INT}
STRINGS = {"type": "array", "maxItems": 8, "items": STRING}
LABELS = {"type": "object", "maxProperties": 8, "additionalProperties": STRING}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}


def struct(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


PAIR = struct(a=INT, b=INT)
PARTS = {"type": "array", "maxItems": 8, "items": struct(name=STRING, weight=INT)}

RULES: dict[str, tuple[dict[str, Any], str, Any, Any]] = {
    "present": (PAIR, "has(self.b)", {"b": 0}, {"a": 1}),
    "absent key": (PAIR, "self.b > 0", {"b": 1}, {"a": 1}),
    "int and double": (INT, "self < 1.5", 1, 2),
    "double": ({"type": "number"}, "self / 2.0 == 1.5", 3, 4),
    "int division": (INT, "self / 2 == 1", 3, 4),
    "overflow": (INT, "self + 1 > self", 1, 9223372036854775807),
    "bool": ({"type": "boolean"}, "self", True, False),
    "int or string": (
        INT_OR_STRING,
        "type(self) == int ? self < 5 : self.endsWith('%')",
        4,
        "4",
    ),
    "string of int or string": (
        INT_OR_STRING,
        "type(self) == int ? self < 5 : self.endsWith('%')",
        "4%",
        5,
    ),
    "wrong type of int or string": (INT_OR_STRING, "self > 5", 6, "6"),
    "date-time": (
        DATE_TIME,
        "self > timestamp('2020-01-01T00:00:00Z')",
        "2021-01-01T00:00:00Z",
        "2019-01-01T00:00:00Z",
    ),
    "year": (
        DATE_TIME,
        "self.getFullYear() == 2021",
        "2021-06-01T00:00:00+02:00",
        "2022-06-01T00:00:00Z",
    ),
    "duration": (
        {"type": "string", "format": "duration"},
        "self <= duration('1h')",
        "3600s",
        "1h1ms",
    ),
    "bytes": ({"type": "string", "format": "byte"}, "self == b'abc'", "YWJj", "YWJk"),
    "date": (
        {"type": "string", "format": "date"},
        "self.getMonth() == 1",
        "2021-02-03",
        "2021-03-03",
    ),
    "map": (LABELS, "'x' in self && self['x'] == 'y'", {"x": "y"}, {"x": "z"}),
    "map keys": (
        LABELS,
        "self.all(k, k.startsWith('a') && size(self[k]) > 0)",
        {"a1": "x"},
        {"a1": ""},
    ),
    "missing map key": (LABELS, "self['x'] == 'y'", {"x": "y"}, {"z": "y"}),
    "list of objects": (
        PARTS,
        "self.exists_one(p, p.name == 'x')",
        [{"name": "x"}],
        [{"name": "x"}, {"name": "x"}],
    ),
    "filter and map": (
        PARTS,
        "self.filter(p, p.weight > 1).map(p, p.name) == ['b']",
        [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}],
        [{"name": "a", "weight": 2}],
    ),
    "index": (
        PARTS,
        "self[size(self) - 1].name == 'z'",
        [{"name": "a"}, {"name": "z"}],
        [{"name": "z"}, {"name": "a"}],
    ),
    "index out of bounds": (INTS, "self[1] == 2", [1, 2], [1]),
    "unique": (
        PARTS,
        "self.all(x, self.exists_one(y, y.name == x.name))",
        [{"name": "a"}],
        [{"name": "a"}, {"name": "a"}],
    ),
    "escaped names": (
        struct(**{"a-b": INT, "c.d": INT, "e/f": INT, "namespace": INT, "g__h": INT}),
        (
            "self.a__dash__b + self.c__dot__d + self.e__slash__f + self.__namespace__ "
            "+ self.g__underscores__h == 5"
        ),
        {"a-b": 1, "c.d": 1, "e/f": 1, "namespace": 1, "g__h": 1},
        {"a-b": 2, "c.d": 1, "e/f": 1, "namespace": 1, "g__h": 1},
    ),
    "unknown fields stay unseen": (
        {**struct(a=INT), "x-kubernetes-preserve-unknown-fields": True},
        "self.a == 1",
        {"a": 1, "b": "x"},
        {"a": 2, "b": "x"},
    ),
    "ternary and in": (STRING, "self in ['a', 'b'] ? true : self == ''", "a", "c"),
    "optional select": (PAIR, "self.?b.orValue(7) == 7", {"a": 1}, {"b": 1}),
    "optional index": (LABELS, "self[?'x'].hasValue()", {"x": ""}, {"y": ""}),
    "optional map": (PAIR, "self.?a.optMap(a, a > 1).orValue(true)", {"b": 1}, {"a": 1}),
    "string functions": (
        STRING,
        "self.lowerAscii().replace('a', 'b').split(',')[1].trim() == 'bc'",
        "X, AC",
        "X, AD",
    ),
    "more string functions": (
        STRING,
        (
            "self.substring(1, 3).upperAscii() == 'BC' && self.indexOf('c') == 2 "
            "&& self.charAt(0) == 'a' && self.lastIndexOf('d') == 3"
        ),
        "abcd",
        "abce",
    ),
    "matches": (STRING, "self.matches('^[a-z]+$')", "abc", "aBc"),
    "find": (STRING, "self.find('[0-9]+') == '123'", "abc 123 4", "abc"),
    "find with groups": (STRING, "self.find('a(b+)(c)?') == 'abb'", "xabb", "xac"),
    "find all": (STRING, "self.findAll('[0-9]+', 2) == ['1', '22']", "a1b22c3", "a1b2"),
    "sorted": (INTS, "self.isSorted()", [1, 2, 2], [2, 1]),
    "sum": (INTS, "self.sum() == 3", [1, 2], [1, 3]),
    "sum of nothing": (INTS, "self.sum() == 0", [], [1]),
    "min and max": (INTS, "self.min() == 1 && self.max() == 3", [3, 1], [3, 2]),
    "min of nothing": (INTS, "self.min() == 1", [1], []),
    "indexes": (INTS, "self.indexOf(1) == 0 && self.lastIndexOf(1) == 2", [1, 2, 1], [1, 1]),
    "durations": (
        INT,
        "[duration('1h'), duration('30m')].sum() == duration('90m') && self == 1",
        1,
        2,
    ),
    "sets": (
        STRINGS,
        "sets.contains(self, ['a']) && !sets.intersects(self, ['z'])",
        ["a", "b"],
        ["a", "z"],
    ),
    "equivalent sets": (STRINGS, "sets.equivalent(self, ['a', 'b'])", ["b", "a", "a"], ["b"]),
    "quantity": (STRING, "quantity(self).isLessThan(quantity('1Gi'))", "900Mi", "1100Mi"),
    "equal quantities": (STRING, "quantity(self) == quantity('0.5')", "500m", "501m"),
    "compared quantities": (STRING, "quantity(self).compareTo(quantity('1k')) == 0", "1000", "1"),
    "arithmetic of quantities": (
        STRING,
        "quantity(self).add(quantity('1')).sub(2).asInteger() == 9",
        "10",
        "11",
    ),
    "whole quantities": (STRING, "quantity(self).isInteger()", "2k", "2500m"),
    "no whole quantity": (STRING, "quantity(self).asInteger() == 2", "2", "2.5"),
    "approximate quantity": (STRING, "quantity(self).asApproximateFloat() < 0.6", "500m", "1"),
    "no quantity": (STRING, "isQuantity(self)", "1.5Gi", "1.5Gib"),
    "two variables": (INTS, "self.all(i, v, v == i)", [0, 1], [1, 1]),
    "two variables of a map": (LABELS, "self.exists(k, v, k == v)", {"a": "a"}, {"a": "b"}),
    "transformed list": (INTS, "self.transformList(i, v, v > 1, v * 10) == [20]", [1, 2], [2, 2]),
    "types": (
        PAIR,
        "type(self.a) == int && type('x') == string && type([1]) == list",
        {"a": 1},
        {"b": 1},
    ),
    "conversions": (STRING, "int(self) == 5 && double(self) == 5.0 && string(5) == self", "5", "x"),
}
"""By what it shows: schema, rule, a value that passes, one that does not."""

REFUSED: dict[str, tuple[dict[str, Any], Any, str, str]] = {
    "no such field": (PAIR, "self.c == 1", "rule", "undefined field 'c'"),
    "no such field of items": (PARTS, "self.all(p, p.size > 1)", "rule", "undefined field 'size'"),
    "wrong types": (INT, "self > 'a'", "rule", "found no matching overload for '_>_'"),
    "no bool": (INT, "self + 1", "rule", "must evaluate to a bool"),
    "bad grammar": (INT, "self +", "rule", "compilation failed: ERROR: <input>:1:7: Syntax error"),
    "no such function": (INT, "foo(self)", "rule", "undeclared reference to 'foo'"),
    "empty": (INT, " ", "rule", "rule is not specified"),
    "other metadata": (PAIR, "self.metadata.name == ''", "rule", "undefined field 'metadata'"),
    "unknown reason": (INT, {"rule": "true", "reason": "Bad"}, "reason", "supported values"),
    "lines without message": (INT, "self\n> 1", "message", "message must be specified"),
    "message of lines": (INT, {"rule": "true", "message": "a\nb"}, "message", "line breaks"),
    "field path": (PAIR, {"rule": "true", "fieldPath": ".c"}, "fieldPath", "must be a valid path"),
    "message expression": (
        INT,
        {"rule": "true", "messageExpression": "self"},
        "messageExpression",
        "must evaluate to a string",
    ),
    "bad message expression": (
        INT,
        {"rule": "true", "messageExpression": "self.x"},
        "messageExpression",
        "messageExpression compilation failed",
    ),
    "optional oldSelf unused": (
        INT,
        {"rule": "true", "optionalOldSelf": True},
        "optionalOldSelf",
        "may not be set if oldSelf is not used",
    ),
    "optional oldSelf as plain": (
        INT,
        {"rule": "self == oldSelf", "optionalOldSelf": True},
        "rule",
        "found no matching overload for '_==_'",
    ),
}
"""By what it shows: schema, rule, the field of the rule that is named, words of the refusal."""
