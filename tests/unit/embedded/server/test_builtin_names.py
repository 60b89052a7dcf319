"""Names, labels, keys."""

import pytest

from multiqueue.embedded.server.schema.metadata import MAX_ANNOTATIONS_BYTES, validate_metadata
from multiqueue.lib import object_names as names
from tests.unit.embedded.server.kind_builders import fields, texts

LONG = "a" * 64


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (names.subdomain, ["a", "a.b-c", "1.example.com"], ["", "A", "a_b", "-a", "a.", "a" * 254]),
        (names.label, ["a", "0-a"], ["a.b", "A", LONG]),
        (names.label_1035, ["a", "a-1"], ["1a", "a."]),
        (names.segment, ["system:node", "A b"], [".", "..", "a/b", "a%b"]),
        (
            names.qualified_name,
            ["a", "A.b_c", "x.io/a"],
            ["", "/a", "x/", "x/y/z", "X.io/a", "a b"],
        ),
        (names.label_value, ["", "a", "A_b.c"], ["a b", "-a", LONG]),
        (names.config_key, ["a", ".hidden", "A_b"], ["", "a b", ".", "..", "..a"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_rules(rule: object, good: list[str], bad: list[str]) -> None:
    assert [name for name in good if rule(name)] == []  # type: ignore[operator]
    assert [name for name in bad if not rule(name)] == []  # type: ignore[operator]


def test_ports_are_16_bits_wide() -> None:
    assert [port for port in (0, 1, 65535, 65536) if names.port_number(port)] == [0, 65536]


def test_messages_name_the_part_that_is_wrong() -> None:
    assert names.qualified_name("X.io/a")[0].startswith(
        "prefix part a lowercase RFC 1123 subdomain"
    )
    assert names.qualified_name("x.io/")[0] == "name part must be non-empty"


def test_metadata_may_be_wrong_in_many_places() -> None:
    metadata = {
        "name": "Bad",
        "labels": {"a b": "ok", "ok": "a b"},
        "annotations": {"/x": "any text at all", "UPPER.io/x": ""},
        "finalizers": ["plain", "x.io/good"],
    }
    got = validate_metadata(metadata, "subdomain")
    assert fields(got) == [
        "metadata.name",
        "metadata.labels",
        "metadata.labels",
        "metadata.annotations",
        "metadata.finalizers[0]",
    ]


def test_a_name_is_required() -> None:
    want = ["metadata.name: Required value: name or generateName is required"]
    assert texts(validate_metadata({}, "subdomain")) == want


def test_annotations_have_a_limit_together() -> None:
    metadata = {"name": "a", "annotations": {"x": "y" * MAX_ANNOTATIONS_BYTES}}
    want = ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    assert texts(validate_metadata(metadata, "subdomain")) == want


def test_owner_references_are_complete_and_have_one_controller() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": True}
    metadata = {"name": "a", "ownerReferences": [owner, {**owner, "uid": ""}]}
    got = validate_metadata(metadata, "subdomain")
    assert fields(got) == ["metadata.ownerReferences.uid", "metadata.ownerReferences"]
