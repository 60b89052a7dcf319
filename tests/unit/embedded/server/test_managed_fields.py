"""Owners of fields, without a server: merging, dropping, taking over, versions."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from multiqueue.embedded.server.managed.apply_configuration import ApplyConflictError
from multiqueue.embedded.server.managed.field_sets import from_wire, to_wire
from multiqueue.embedded.server.managed.owners import (
    NOBODY,
    decode_part,
    element_of,
    encode,
    encode_tree,
    parse,
    same_fields,
)
from multiqueue.embedded.server.managed.tracking import manager_of
from multiqueue.embedded.server.versions import convert
from tests.unit.embedded.server.managed_kinds import NOW, Thing, make_kind, make_version

LATER = "2026-01-01T00:00:09Z"


def parts(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("live", "config", "want"),
    [
        ("abc", "", "abc"),
        ("abc", "b", "abc"),
        ("abc", "d", "abcd"),
        ("abc", "ca", "bca"),
        ("abc", "xb", "axbc"),
        ("abc", "cxay", "bcxay"),
        ("", "ba", "ba"),
    ],
)
def test_shared_items_take_the_order_of_the_configuration(
    live: str, config: str, want: str
) -> None:
    thing = Thing().create({"parts": parts(*live)}, by="creator")
    thing.apply({"parts": parts(*config)}, by="applier")
    assert "".join(each["name"] for each in thing.spec["parts"]) == want


def test_an_item_that_its_applier_drops_goes_with_all_it_has() -> None:
    thing = Thing().apply({"parts": [{"name": "a", "more": {"x": 1}}, {"name": "b"}]}, by="one")
    thing.apply({"parts": parts("b")}, by="one")
    assert thing.spec == {"parts": parts("b")}


def test_an_item_stays_with_what_others_own_of_it() -> None:
    thing = Thing().apply({"parts": [{"name": "a", "weight": 1}]}, by="one")
    thing.apply({"parts": [{"name": "a", "more": {"x": 1}}]}, by="two")
    thing.apply({}, by="one")
    assert thing.spec == {"parts": [{"name": "a", "more": {"x": 1}}]}
    assert thing.owned("one") == {}


def test_updaters_keep_what_an_applier_drops() -> None:
    thing = Thing().create({"labels": {"x": "1"}}, by="creator")
    thing.apply({"labels": {"x": "1", "y": "2"}}, by="one")
    thing.apply({}, by="one")
    assert thing.spec == {"labels": {"x": "1"}}


def test_an_empty_configuration_takes_everything_back() -> None:
    thing = Thing().create({"size": 1}, by="creator")
    before, owners = thing.obj, thing.owners
    spec = {"labels": {"x": "1"}, "tags": ["t"], "parts": parts("a"), "whole": {"w": "1"}}
    thing.apply(spec, by="one").apply(None, by="one")
    assert thing.spec == before["spec"]
    assert same_fields(thing.owners, owners)


def test_the_time_of_an_entry_is_that_of_its_last_change() -> None:
    thing = Thing().apply({"size": 1}, by="one")
    thing.apply({"size": 1}, by="one", now=LATER).apply({"size": 1}, by="two", now=LATER)
    times = {owner.writer.manager: owner.time for owner in thing.owners}
    assert times == {"one": NOW, "two": ""}
    thing.apply({"size": 2}, by="two", force=True, now=LATER)
    assert [owner.time for owner in thing.owners] == [LATER]


def test_null_is_no_value_of_a_map() -> None:
    thing = Thing().create({"labels": {"x": "1"}}, by="creator")
    thing.apply({"labels": None}, by="one")
    assert thing.spec == {"labels": {"x": "1"}}
    assert thing.owned("one") == {"f:labels": {}}


def test_open_fields_merge_as_they_look() -> None:
    thing = Thing().apply({"open": {"a": {"b": 1}, "l": [{"x": 1}]}}, by="one")
    thing.apply({"open": {"a": {"c": 2}}}, by="two")
    assert thing.spec == {"open": {"a": {"b": 1, "c": 2}, "l": [{"x": 1}]}}
    with pytest.raises(ApplyConflictError) as raised:
        thing.apply({"open": {"l": []}}, by="two")
    assert [each.path for each in raised.value.conflicts] == [".spec.open.l"]


def test_repeated_items_of_a_stored_list_are_one_piece() -> None:
    thing = Thing().create({"tags": ["a", "a", "b"]}, by="creator")
    assert thing.owned("creator")["f:tags"] == {".": {}, 'v:"a"': {}, 'v:"b"': {}}
    thing.update({"tags": ["a", "b"]}, by="other")
    assert 'v:"b"' in thing.owned("creator")["f:tags"]
    assert thing.spec == {"tags": ["a", "b"]}


def renamed(before: str, after: str, api_version: str) -> Any:
    """A converter that gives a field of the spec another name."""

    def rename(obj: dict[str, Any]) -> dict[str, Any]:
        changed = {**obj, "apiVersion": api_version}
        if spec := obj.get("spec"):
            changed["spec"] = {after if name == before else name: spec[name] for name in spec}
        return changed

    return rename


@pytest.fixture
def two_versions() -> Thing:
    """``labels`` of the stored version is ``open`` in the other."""
    other = make_version(
        "v2",
        storage=False,
        to_storage=renamed("open", "labels", "example.com/v1"),
        from_storage=renamed("labels", "open", "example.com/v2"),
    )
    return Thing(make_kind(make_version(), other))


def in_version(thing: Thing, name: str) -> Thing:
    """The same object as a request in another version sees it."""
    wanted = next(version for version in thing.kind.versions if version.name == name)
    given = next(
        version for version in thing.kind.versions if thing.obj["apiVersion"].endswith(version.name)
    )
    thing.obj = convert(thing.kind, given, wanted, thing.obj)
    return thing


def test_conflicts_are_found_across_versions(two_versions: Thing) -> None:
    thing = two_versions.apply({"labels": {"x": "1"}}, by="one")
    other = thing.kind.versions[1]
    with pytest.raises(ApplyConflictError):
        in_version(thing, "v2").apply({"open": {"x": "2"}}, by="two", version=other)
    thing.apply({"open": {"x": "2"}}, by="two", version=other, force=True)
    assert [owner.writer.api_version for owner in thing.owners] == ["example.com/v2"]


def test_an_applier_may_change_the_version(two_versions: Thing) -> None:
    thing = two_versions.apply({"labels": {"x": "1", "y": "1"}, "size": 1}, by="one")
    other = thing.kind.versions[1]
    in_version(thing, "v2").apply({"open": {"y": "1"}}, by="one", version=other)
    assert in_version(thing, "v1").spec == {"labels": {"y": "1"}}
    assert thing.owned("one") == {"f:open": {"f:y": {}}}


def test_owners_in_a_version_that_is_gone_are_forgotten(two_versions: Thing) -> None:
    thing = two_versions.apply({"labels": {"x": "1"}}, by="one")
    (owner,) = thing.owners
    gone = replace(owner, writer=replace(owner.writer, api_version="example.com/v0"))
    thing.owners = (gone,)
    thing.apply({"labels": {"x": "2"}}, by="two")
    assert [each.writer.manager for each in thing.owners] == ["two"]


def test_entries_read_back_as_they_were_written() -> None:
    thing = Thing().create({"size": 1, "parts": parts("a")}, by="creator")
    thing.apply({"tags": ["a b", 'q"'], "labels": {"x/y.z": "1"}}, by="one")
    assert parse(orjson.loads(encode(thing.owners))) == thing.owners
    assert parse([]) == NOBODY


def test_elements_have_one_form() -> None:
    fields: dict[str, Any] = {
        'k:{"b": 1,  "a":"x"}': {},
        "v: 1 ": {},
        "z:later": {},
        "f:a": {"f:b": {}},
    }
    assert to_wire(from_wire(fields)) == {'k:{"a":"x","b":1}': {}, "v:1": {}, "f:a": {"f:b": {}}}


@pytest.mark.parametrize("fields", [{"nonsense": {}}, {"k:[1]": {}}, {"v:{": {}}, {"f:a": 1}])
def test_what_is_no_field_set_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_wire(fields)


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.32 (linux)", "kubectl"),
        ("", "unknown"),
        ("a\x00b/1", "ab"),
        ("é" * 100, "é" * 64),
    ],
)
def test_programs_are_managers(agent: str, manager: str) -> None:
    assert manager_of(agent) == manager


def test_equal_parts_are_shared_between_objects() -> None:
    one, two = (Thing().create({"size": 1, "labels": {"x": "1"}}, by="me") for _ in range(2))
    assert one.owners[0].writer is two.owners[0].writer
    assert one.owners[0].fields[0] is two.owners[0].fields[0]


def test_top_level_elements_are_read_without_the_rest() -> None:
    wire: dict[str, Any] = {"f:data": {"f:x": {}}, 'k:{"a":"x"}': {}, 'f:"\\': {}, "v:1": {}}
    tree = from_wire(wire)
    assert [element_of(part) for part in encode_tree(tree)] == sorted(tree)
    assert dict(map(decode_part, encode_tree(tree))) == tree
