"""Pruning, nulls, defaulting and validation of custom resources."""

from typing import Any

import pytest

from multiqueue.embedded.server.schema import Admitted, admit
from multiqueue.embedded.server.schema.validate import duplicate_items
from tests.unit.embedded.server.kind_builders import custom_kind, texts


def admit_spec(schema: dict, spec: Any, **options: Any) -> Admitted:
    kind = custom_kind(schema)
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    return admit(kind, kind.versions[0], body, **options)


def spec_of(schema: dict, spec: Any) -> Any:
    return admit_spec(schema, spec).obj["spec"]


def struct(required: list[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
OPEN = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("schema", "spec", "want"),
    [
        (struct(a=STRING), {"a": "x", "b": 1}, {"a": "x"}),
        (struct(a=struct(b=STRING)), {"a": {"c": 1}}, {"a": {}}),
        ({"type": "object", **OPEN}, {"b": {"c": 1}}, {"b": {"c": 1}}),
        (
            {**struct(a=struct(b=STRING)), **OPEN},
            {"a": {"c": 1}, "z": {"y": 1}},
            {"a": {}, "z": {"y": 1}},
        ),
        (
            {"type": "object", "additionalProperties": struct(b=STRING)},
            {"any": {"b": "x", "c": 1}},
            {"any": {"b": "x"}},
        ),
        (struct(a={"type": "array", "items": struct(b=STRING)}), {"a": [{"c": 1}]}, {"a": [{}]}),
        (struct(a={"x-kubernetes-int-or-string": True}), {"a": "50%"}, {"a": "50%"}),
    ],
    ids=[
        "an unknown field goes",
        "a nested one too",
        "unless the schema preserves",
        "known fields are still pruned inside",
        "values of a map are pruned",
        "items of a list are pruned",
        "int-or-string stays",
    ],
)
def test_pruning(schema: dict, spec: Any, want: Any) -> None:
    assert spec_of(schema, spec) == want


def test_unknown_fields_are_reported_with_their_path() -> None:
    schema = struct(parts={"type": "array", "items": struct(name=STRING)})
    got = admit_spec(schema, {"parts": [{"name": "a", "size": 1}], "x": 1})
    assert got.warnings == ['unknown field "spec.parts[0].size"', 'unknown field "spec.x"']


@pytest.mark.parametrize(
    ("schema", "spec", "want"),
    [
        (struct(a={**STRING, "default": "x"}), {}, {"a": "x"}),
        (struct(a={**STRING, "default": "x"}), {"a": None}, {"a": "x"}),
        (struct(a={**STRING, "default": "x", "nullable": True}), {"a": None}, {"a": None}),
        (struct(a=STRING), {"a": None}, {}),
        (struct(a={**STRING, "nullable": True}), {"a": None}, {"a": None}),
        (
            struct(a={**struct(b={**INTEGER, "default": 3}), "default": {}}),
            {},
            {"a": {"b": 3}},
        ),
        (struct(a=struct(b={**INTEGER, "default": 3})), {}, {}),
        (
            {"type": "object", "additionalProperties": STRING},
            {"x": None, "y": "1"},
            {"y": "1"},
        ),
    ],
    ids=[
        "a default fills what is missing",
        "and replaces a null",
        "but not where null is allowed",
        "a null without default goes",
        "a nullable one stays",
        "defaults apply inside defaults",
        "but not inside what is missing",
        "nulls in maps go",
    ],
)
def test_nulls_and_defaults(schema: dict, spec: Any, want: Any) -> None:
    assert spec_of(schema, spec) == want


def test_default_objects_are_not_shared() -> None:
    kind = custom_kind(struct(a={"type": "object", "default": {}, **OPEN}))
    body = {"metadata": {"name": "a"}, "spec": {}}
    first = admit(kind, kind.versions[0], body).obj
    first["spec"]["a"]["changed"] = True
    assert admit(kind, kind.versions[0], body).obj["spec"] == {"a": {}}


@pytest.mark.parametrize(
    ("schema", "spec", "want"),
    [
        (struct(["a"], a=STRING), {}, "spec.a: Required value"),
        (
            struct(a=INTEGER),
            {"a": "x"},
            'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"',
        ),
        (
            struct(a={**INTEGER, "minimum": 1}),
            {"a": 0},
            "spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1",
        ),
        (
            struct(a={**INTEGER, "maximum": 5, "exclusiveMaximum": True}),
            {"a": 5},
            "spec.a: Invalid value: 5: spec.a in body should be less than 5",
        ),
        (
            struct(a={**INTEGER, "format": "int32"}),
            {"a": 2**31},
            (
                '<nil>: Invalid value: "": '
                "Checked value must be of type integer with format int32 in spec.a"
            ),
        ),
        (
            struct(a={**STRING, "enum": ["x", "y"]}),
            {"a": "z"},
            'spec.a: Unsupported value: "z": supported values: "x", "y"',
        ),
        (
            struct(a={**STRING, "maxLength": 2}),
            {"a": "abc"},
            "spec.a: Too long: may not be more than 2 bytes",
        ),
        (
            struct(a={**STRING, "minLength": 1}),
            {"a": ""},
            'spec.a: Invalid value: "": spec.a in body should be at least 1 chars long',
        ),
        (
            struct(a={**STRING, "pattern": "^[a-z]+$"}),
            {"a": "A"},
            """spec.a: Invalid value: "A": spec.a in body should match '^[a-z]+$'""",
        ),
        (
            struct(a={**STRING, "format": "date-time"}),
            {"a": "soon"},
            'spec.a: Invalid value: "soon": spec.a in body must be of type date-time: "soon"',
        ),
        (
            struct(a={"type": "array", "maxItems": 1, "items": STRING}),
            {"a": ["x", "y"]},
            "spec.a: Too many: 2: must have at most 1 items",
        ),
        (
            struct(a={"type": "array", "items": STRING}),
            {"a": ["x", 1]},
            (
                'spec.a[1]: Invalid value: "integer": '
                'spec.a[1] in body must be of type string: "integer"'
            ),
        ),
        (
            struct(a={"type": "array", "items": STRING}),
            {"a": [None]},
            'spec.a[0]: Invalid value: "null": spec.a[0] in body must be of type string: "null"',
        ),
        (
            struct(a={"type": "object", "additionalProperties": INTEGER}),
            {"a": {"x": "y"}},
            'spec.a.x: Invalid value: "string": spec.a.x in body must be of type integer: "string"',
        ),
        (
            struct(a={"type": "array", "x-kubernetes-list-type": "set", "items": STRING}),
            {"a": ["x", "x"]},
            'spec.a[1]: Duplicate value: "x"',
        ),
        (
            struct(a={**INTEGER, "multipleOf": 2}),
            {"a": 3},
            "spec.a: Invalid value: 3: spec.a in body should be a multiple of 2",
        ),
        (
            struct(a={"type": "object", "minProperties": 1, **OPEN}),
            {"a": {}},
            "spec.a: Invalid value: 0: spec.a in body should have at least 1 properties",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_value_is_explained_as_kubernetes_does(
    schema: dict, spec: Any, want: str
) -> None:
    assert texts(admit_spec(schema, spec).causes) == [want]


def test_a_list_map_must_have_unique_keys() -> None:
    items = struct(["name"], name=STRING, port=INTEGER)
    schema = struct(
        a={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": items,
        }
    )
    spec = {"a": [{"name": "x", "port": 1}, {"name": "y"}, {"name": "x", "port": 2}]}
    assert texts(admit_spec(schema, spec).causes) == ['spec.a[2]: Duplicate value: {"name":"x"}']


def test_nullable_values_may_be_null_whatever_else_the_schema_says() -> None:
    schema = struct(a={**STRING, "enum": ["x"], "nullable": True, "anyOf": [{"pattern": "x"}]})
    assert admit_spec(schema, {"a": None}).causes == []
    assert admit_spec(schema, {"a": "y"}).causes


def test_alternatives_explain_themselves() -> None:
    schema = struct(a={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, STRING]})
    got = texts(admit_spec(schema, {"a": {}}).causes)
    assert '"spec.a" must validate at least one schema (anyOf)' in got[1]


def test_metadata_is_decoded_as_such() -> None:
    kind = custom_kind(struct(a=STRING))
    body = {"metadata": {"name": "a", "labels": {"x": 1}}}
    assert admit(kind, kind.versions[0], body).bad_request == (
        'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number '
        "into Go struct field ObjectMeta.metadata.labels.x of type string"
    )


def test_unknown_metadata_is_reported() -> None:
    kind = custom_kind(struct(a=STRING))
    got = admit(kind, kind.versions[0], {"metadata": {"name": "a", "labelz": {}}})
    assert got.warnings == ['unknown field "metadata.labelz"']
    assert got.obj["metadata"] == {"name": "a"}


def test_embedded_resources_keep_their_own_metadata() -> None:
    schema = struct(inner={"type": "object", "x-kubernetes-embedded-resource": True})
    spec = {"inner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}}
    got = admit_spec(schema, spec)
    assert got.obj["spec"]["inner"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
    }
    assert got.warnings == ['unknown field "spec.inner.spec"']


def test_items_of_a_map_list_that_are_no_objects_may_repeat() -> None:
    """Somebody sent two nulls as conditions: a 500."""
    schema = {
        "type": "array",
        "items": {"type": "object"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    found = duplicate_items(schema, [None, {"type": "a"}, None], "status.conditions")
    assert [each.field for each in found] == ["status.conditions[2]"]
