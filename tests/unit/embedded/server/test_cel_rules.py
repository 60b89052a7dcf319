"""Rules of schemas: what is asked, what is not, and what bounds it."""

import pytest

from multiqueue.embedded.server.causes import FieldCause, invalid, required
from multiqueue.embedded.server.cel.custom_rules import rule_causes
from multiqueue.embedded.server.cel.evaluate import evaluate
from multiqueue.embedded.server.cel.rules import compile_rules
from tests.unit.embedded.server.cel_kinds import (
    INT,
    NUMBER,
    STRING,
    check,
    definition_texts,
    holds,
    list_of,
    map_of,
    struct,
    texts,
    version_of,
    with_rules,
)

NOT_CHECKED = "some validation rules were not checked"


@pytest.mark.parametrize(
    ("cause", "asked"),
    [
        (invalid("spec.x", 1, "should be less than 1"), True),
        (required("spec.y"), False),
        (FieldCause("FieldValueTypeInvalid", "spec.x", "must be of type integer"), False),
        (FieldCause("FieldValueTooMany", "spec.x", "Too many"), False),
    ],
    ids=["out of range", "missing", "of another type", "too many"],
)
def test_which_errors_of_the_schema_keep_rules_from_being_asked(
    cause: FieldCause, asked: bool
) -> None:
    version = version_of(with_rules(struct(x=INT), "self.x > 1"))
    got = rule_causes(version, {"spec": {"x": 1}}, None, [cause])
    assert (NOT_CHECKED in got[0].message) != asked
    assert len(got) == 1


def test_an_object_without_rules_needs_no_cel() -> None:
    assert rule_causes(version_of(struct(x=INT)), {"spec": {}}, None, [required("spec.y")]) == []


def test_rules_of_a_stored_definition_that_do_not_compile_refuse_everything() -> None:
    version = version_of(with_rules(struct(x=INT), "self.y > 1"))
    got = rule_causes(version, {"spec": {"x": 1}}, None, [])
    assert "rule compile error" in got[0].message
    assert "undefined field 'y'" in got[0].message


def test_a_rule_without_old_self_is_not_asked_about_what_did_not_change() -> None:
    spec = struct(part=with_rules(struct(x=INT), "self.x > 1"), note=STRING)
    bad = {"x": 0}
    assert texts(check(spec, {"part": bad, "note": "a"}, {"part": bad, "note": "b"})) == []
    assert texts(check(spec, {"part": bad}, {"note": "b"})) != []


def test_a_transition_is_asked_even_if_nothing_changed() -> None:
    spec = struct(part=with_rules(struct(x=INT), "self.x > oldSelf.x"))
    assert len(check(spec, {"part": {"x": 1}}, {"part": {"x": 1}})) == 1


def test_an_unchanged_list_keeps_its_items_from_being_asked() -> None:
    spec = struct(plain=list_of(with_rules(INT, "self > 1")), note=STRING)
    old = {"plain": [0], "note": "a"}
    assert check(spec, {"plain": [0], "note": "b"}, old) == []
    assert texts(check(spec, {"plain": [0, 2]}, old))[0].startswith("spec.plain[0]")


def test_items_of_a_list_with_keys_are_compared_one_by_one() -> None:
    item = with_rules(struct(name=STRING, x=INT), "self.x > 1")
    spec = struct(parts=list_of(item, "name"))
    old = {"parts": [{"name": "a", "x": 0}, {"name": "b", "x": 5}]}
    new = {"parts": [{"name": "b", "x": 0}, {"name": "a", "x": 0}]}
    assert [cause.field for cause in check(spec, new, old)] == ["spec.parts[0]"]


def test_a_rule_sees_numbers_as_their_schema_says() -> None:
    assert holds("type(self.x) == double", {"x": 1}, struct(x=NUMBER)) == []
    assert holds("type(self.x) == int", {"x": 1}, struct(x=INT)) == []


def test_a_rule_on_lists_of_lists_and_maps_of_maps() -> None:
    deep = list_of(list_of(struct(n=NUMBER)))
    assert holds("self[0][0].n + 0.5 == 1.5", [[{"n": 1}]], deep) == []
    maps = map_of(map_of(struct(n=NUMBER)))
    assert holds("self['a']['b'].n + 0.5 == 1.5", {"a": {"b": {"n": 1}}}, maps) == []


def test_a_nanosecond_counts() -> None:
    time = {"type": "string", "format": "date-time"}
    rule = "self.x > timestamp('2021-01-01T00:00:00.000000001Z')"
    assert holds(rule, {"x": "2021-01-01T00:00:00.000000002Z"}, struct(x=time)) == []
    assert holds(rule, {"x": "2021-01-01T00:00:00.000000001Z"}, struct(x=time)) != []


def test_embedded_objects_have_a_name() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    value = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "labels": {}}}
    assert holds("self.metadata.name == 'a' && self.kind == 'Pod'", value, embedded) == []
    assert "undefined field 'labels'" in holds("self.metadata.labels == {}", value, embedded)[0]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("{'a': 1}.transformMap(k, v, v + 1) == {}", "transformMap and transformMapEntry are not"),
        ("lists.range(self.x).size() == 1", "lists.range is not supported"),
        ("cel.bind(a, 1, a == 1)", "undeclared reference"),
        ("semver('1.0.0').major() == 1", "undeclared reference to 'semver'"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_definition(rule: str, words: str) -> None:
    got = definition_texts(with_rules(struct(x=INT), rule))
    assert got[0].startswith("S.properties[spec].x-kubernetes-validations[0].rule: Invalid value")
    assert words in got[0]


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_rules_inside_of_combinations_are_refused(keyword: str) -> None:
    got = definition_texts({**struct(x=INT), keyword: [with_rules({}, "true")]})
    assert got[0].startswith(f"S.properties[spec].{keyword}: Forbidden: must not be set inside")


def test_rules_of_values_without_a_type_are_refused() -> None:
    free = {"x-kubernetes-preserve-unknown-fields": True}
    assert "expressions do not see values" in definition_texts(with_rules(free, "true"))[0]


@pytest.mark.parametrize(
    "entry", [{"rule": 1}, {"rule": "true", "optionalOldSelf": "x"}, "true", {"message": 1}]
)
def test_malformed_entries_are_refused(entry: object) -> None:
    spec = {**struct(x=INT), "x-kubernetes-validations": [entry]}
    assert definition_texts(spec)[0].startswith("S.properties[spec].x-kubernetes-validations[0]")


def test_places_of_errors_count_lines_of_the_rule_itself() -> None:
    rule = {"rule": "oldSelf.hasValue() ||\n  self.y", "message": "m", "optionalOldSelf": True}
    assert (
        "<input>:2:7: undefined field 'y'" in definition_texts(with_rules(struct(x=INT), rule))[0]
    )


def test_an_optional_rule_cannot_break_out_of_its_wrapping() -> None:
    rule = {"rule": "true\n) || (true", "message": "m", "optionalOldSelf": True}
    assert "Syntax error" in definition_texts(with_rules(struct(x=INT), rule))[0]


def test_long_loops_are_cut_off() -> None:
    spec = with_rules(list_of(INT), "self.all(x, !self.exists(y, x + y < 0))", "true")
    got = texts(check(spec, list(range(200))))
    assert len(got) == 1
    assert "no further validation rules will be run due to call cost exceeds limit" in got[0]


def test_too_many_evaluations_are_refused() -> None:
    compiled = compile_rules(struct(spec=list_of(with_rules(INT, "self >= 0"))))
    assert compiled.root is not None
    assert evaluate(compiled.root, {"spec": [0, 1, 2]}, most=3) == []
    causes = evaluate(compiled.root, {"spec": [0, 1, 2, 3]}, most=3)
    assert "running out of cost budget" in texts(causes)[0]


def test_what_passed_is_remembered_and_what_did_not_is_not() -> None:
    compiled = compile_rules(struct(spec=with_rules(struct(x=INT, remembered=INT), "self.x > 5")))
    assert compiled.root is not None
    scope = compiled.root.properties["spec"]
    for value, count in ((6, 1), (6, 1), (4, 1), (4, 1), (7, 2)):
        causes = evaluate(compiled.root, {"spec": {"x": value, "remembered": value}})
        assert bool(causes) == (value == 4)
        assert len(scope.passed) == count


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("'a' + string(self.x)", "a1"),
        ("'  padded '", "padded"),
        ("self.y", "message"),
        ("'a\\nb'", "message"),
        ("''", "message"),
        ("'x'.replace('x', 'y')", "y"),
    ],
)
def test_an_expression_for_the_message(expression: str, want: str) -> None:
    rule = {"rule": "false", "message": "message", "messageExpression": expression}
    spec = with_rules(struct(x=INT, y=STRING), rule)
    assert texts(check(spec, {"x": 1})) == [f"spec: Invalid value: {want}"]


def test_the_same_schema_is_compiled_once() -> None:
    schema = struct(spec=with_rules(struct(x=INT), "self.x > 77"))
    assert compile_rules(schema) is compile_rules({**schema})
