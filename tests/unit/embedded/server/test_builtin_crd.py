"""CustomResourceDefinitions: defaults and whether they can be served."""

import copy
from typing import Any

import pytest

from multiqueue.embedded.server.custom import kind_from_crd
from tests.unit.embedded.server.kind_builders import (
    create_causes,
    created,
    fields,
    texts,
    update_causes,
)

SPEC = "spec.validation.openAPIV3Schema.properties[spec]"
KEY = ("apiextensions.k8s.io", "customresourcedefinitions")


def crd(schema: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
    spec_schema = {"type": "object", "properties": {"spec": schema or {"type": "object"}}}
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": spec_schema},
                    **version,
                }
            ],
        },
    }


def with_spec(**change: Any) -> dict[str, Any]:
    changed = crd()
    changed["spec"] |= change
    return changed


def test_names_follow_from_the_kind() -> None:
    got = created(*KEY, crd())["spec"]
    assert (got["names"]["singular"], got["names"]["listKind"]) == ("widget", "WidgetList")
    assert got["conversion"] == {"strategy": "None"}
    assert create_causes(*KEY, crd()) == []


def test_a_status_that_was_sent_along_is_dropped() -> None:
    assert "status" not in created(*KEY, {**crd(), "status": {"storedVersions": ["v0"]}})


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (with_spec(group="example"), "spec.group"),
        (with_spec(scope="Galaxy"), "spec.scope"),
        (with_spec(versions=[]), "spec.versions"),
        (with_spec(names={"plural": "widgets", "kind": "Wid get"}), "spec.names.kind"),
        (crd() | {"metadata": {"name": "other.example.com"}}, "metadata.name"),
        (crd(storage=False), "spec.versions"),
        (
            crd(schema={"description": "x"}),
            f"{SPEC}.type",
        ),
    ],
    ids=[
        "group", "scope", "no version", "kind", "name", "no storage version", "no type",
    ],
)  # fmt: skip
def test_definitions_are_checked(given: dict, field: str) -> None:
    assert field in fields(create_causes(*KEY, given))


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"type": "thing"}, f"{SPEC}.type"),
        ({"type": "array"}, f"{SPEC}.items"),
        ({"type": "string", "patternn": "a"}, f"{SPEC}.patternn"),
        ({"type": "object", "$ref": "#/x"}, f"{SPEC}.$ref"),
        ({"type": "string", "x-kubernetes-int-or-string": True}, f"{SPEC}.type"),
        (
            {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}},
            f"{SPEC}.x-kubernetes-list-map-keys",
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": STRING}},
            },
            f"{SPEC}.items.properties[name].default",
        ),
        (
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
            f"{SPEC}.additionalProperties",
        ),
        ({"type": "object", "properties": {"a": {"type": "x"}}}, f"{SPEC}.properties[a].type"),
        ({"type": "array", "uniqueItems": True, "items": STRING}, f"{SPEC}.uniqueItems"),
    ],
    ids=[
        "unknown type", "list without items", "unknown keyword", "reference",
        "typed int-or-string", "map without keys", "optional key", "properties and more", "deep",
        "quadratic",
    ],
)  # fmt: skip
def test_schemas_must_be_structural(schema: dict, field: str) -> None:
    assert fields(create_causes(*KEY, crd(schema))) == [field]


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"type": 3}, f"{SPEC}.type"),
        ({"type": "object", "properties": []}, f"{SPEC}.properties"),
        ({"type": "object", "properties": {"a": "string"}}, f"{SPEC}.properties[a]"),
        ({"type": "array", "items": [{"type": "string"}]}, f"{SPEC}.items"),
        ({"type": "string", "maxLength": True}, f"{SPEC}.maxLength"),
        ({"type": "string", "anyOf": [{"minLength": "1"}]}, f"{SPEC}.anyOf[0].minLength"),
    ],
    ids=["type", "properties", "property", "items", "count", "in an alternative"],
)
def test_keywords_have_values_of_their_type(schema: dict, field: str) -> None:
    assert fields(create_causes(*KEY, crd(schema))) == [field]


def test_a_pattern_must_compile() -> None:
    got = texts(create_causes(*KEY, crd({"type": "string", "pattern": "("})))
    assert len(got) == 1
    assert '"(" is not a "regex"' in got[0]


def test_versions_with_different_schemas_cannot_share_selectable_fields() -> None:
    shared = {"selectableFields": [{"jsonPath": ".spec.color"}]}
    given = crd(**shared)
    [v1] = given["spec"]["versions"]
    v2 = {**v1, "name": "v2", "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}}
    given["spec"]["versions"] = [v1, v2]
    assert fields(create_causes(*KEY, given)) == ["spec.selectableFields"]
    del v2["selectableFields"]
    assert create_causes(*KEY, given) == []


def test_what_a_definition_is_about_cannot_change() -> None:
    old = created(*KEY, crd())
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Gadget"
    assert fields(update_causes(*KEY, old, new)) == ["spec.scope", "spec.names.kind"]


def test_a_stored_version_cannot_go() -> None:
    old = created(*KEY, crd()) | {"status": {"storedVersions": ["v1alpha1", "v1"]}}
    assert fields(update_causes(*KEY, old, old)) == ["status.storedVersions[0]"]


def test_a_definition_becomes_a_kind() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}
    definition = crd(
        additionalPrinterColumns=[column],
        selectableFields=[{"jsonPath": ".spec.ready"}],
        subresources={"status": {}, "scale": scale},
    )
    kind = kind_from_crd(definition)
    version = kind.versions[0]
    assert (kind.resource, kind.kind, kind.list_kind) == (
        "widgets.example.com",
        "Widget",
        "WidgetList",
    )
    assert (kind.singular, kind.short_names, kind.categories) == ("widget", ("wd",), ("all",))
    assert (kind.namespaced, kind.has_generation, kind.builtin) == (True, True, False)
    assert (version.has_status, version.columns[0].priority) == (True, 1)
    assert version.scale is not None
    assert version.scale.spec_replicas_path == ".spec.n"
    read = version.selectable_fields["spec.ready"]
    assert [read({"spec": {"ready": value}}) for value in (True, "x", None)] == ["true", "x", ""]
