"""Ownership against a model, and laws of field sets."""

from dataclasses import dataclass, field
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.embedded.server.managed.apply_configuration import ApplyConflictError
from multiqueue.embedded.server.managed.compare import difference_of, everything, mentioned
from multiqueue.embedded.server.managed.field_sets import (
    EMPTY,
    Tree,
    difference,
    from_wire,
    intersection,
    to_wire,
    union,
    without_subtrees,
)
from multiqueue.embedded.server.managed.merge import merge, remove
from multiqueue.embedded.server.managed.merge_types import root_type
from multiqueue.embedded.server.managed.owners import same_fields
from tests.unit.embedded.server.managed_kinds import Thing, make_version

NAMES = st.sampled_from("abc")
TEXTS = st.sampled_from("xyz")
LABELS = st.dictionaries(NAMES, TEXTS, max_size=3)
PARTS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "weight": st.integers(0, 2),
            "more": st.dictionaries(NAMES, st.integers(0, 1), max_size=2),
        },
    ),
    max_size=3,
    unique_by=lambda part: part["name"],
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "labels": LABELS,
        "whole": LABELS,
        "list": st.lists(TEXTS, max_size=2),
        "tags": st.lists(TEXTS, max_size=3, unique=True),
        "parts": PARTS,
        "open": st.dictionaries(NAMES, st.one_of(st.integers(0, 1), LABELS), max_size=2),
    },
)
TYPE = root_type(make_version(), builtin=False)


def at_spec(spec: Any) -> dict[str, Any]:
    return {"spec": spec}


@dataclass
class Model:
    """Labels and who owns them, by the rules in words."""

    values: dict[str, str] = field(default_factory=dict)
    owned: dict[str, set[str]] = field(default_factory=dict)

    def apply(self, by: str, config: dict[str, str], *, force: bool) -> bool:
        """False: a conflict, nothing happens."""
        others = [keys for who, keys in self.owned.items() if who != by]
        changed = {key for key, value in config.items() if self.values.get(key) != value}
        if not force and any(changed & keys for keys in others):
            return False
        for key in self.owned.get(by, set()) - config.keys():
            if not any(key in keys for keys in others):
                self.values.pop(key, None)
        for keys in others:
            keys.difference_update(changed)
        self.values |= config
        self.owned[by] = set(config)
        return True

    def update(self, by: str, wanted: dict[str, str]) -> None:
        changed = {key for key, value in wanted.items() if self.values.get(key) != value}
        removed = self.values.keys() - wanted.keys()
        for keys in self.owned.values():
            keys.difference_update(changed | removed)
        if changed:
            self.owned.setdefault(by, set()).update(changed)
        self.values = dict(wanted)


WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.sampled_from(("one", "two", "three")), LABELS),
        st.tuples(st.just("force"), st.sampled_from(("one", "two", "three")), LABELS),
        st.tuples(st.just("update"), st.sampled_from(("ursula", "una")), LABELS),
    ),
    max_size=12,
)


@given(first=LABELS, writes=WRITES)
def test_ownership_is_as_the_rules_say(
    first: dict[str, str], writes: list[tuple[str, str, dict[str, str]]]
) -> None:
    thing = Thing().create({"size": 1, "labels": dict(first)}, by="creator")
    model = Model(dict(first), {"creator": set(first)})
    for kind, by, labels in writes:
        if kind == "update":
            thing.update({**thing.obj["spec"], "labels": dict(labels)}, by=by)
            model.update(by, labels)
            continue
        config = {"labels": dict(labels)} if labels else {}
        try:
            thing.apply(config, by=by, force=kind == "force")
        except ApplyConflictError:
            assert not model.apply(by, labels, force=False)
        else:
            assert model.apply(by, labels, force=kind == "force")
        assert (thing.spec.get("labels") or {}) == model.values
        for who, keys in model.owned.items():
            owned = thing.owned(who).get("f:labels", {})
            assert {name[2:] for name in owned if name != "."} == keys


@given(live=SPECS, config=SPECS)
def test_applying_again_changes_nothing(live: Any, config: Any) -> None:
    thing = Thing().create(live, by="creator").apply(config, by="one", force=True)
    obj, owners = thing.obj, thing.owners
    thing.apply(config, by="one")
    assert thing.obj == obj
    assert thing.owners == owners


@given(live=SPECS, config=SPECS)
def test_what_is_applied_is_there(live: Any, config: Any) -> None:
    merged = merge(TYPE, at_spec(live), at_spec(config))
    owned = mentioned(TYPE, at_spec(config))
    lost = difference_of(TYPE, at_spec(config), merged)
    assert intersection(owned, lost.changed) == EMPTY or lost.removed == EMPTY
    assert merge(TYPE, merged, at_spec(config)) == merged


@given(first=SPECS, second=SPECS)
def test_appliers_of_disjoint_fields_never_conflict(first: Any, second: Any) -> None:
    theirs = {name: each for name, each in second.items() if name not in first}
    thing = Thing().apply(first, by="one").apply(theirs, by="two")
    assert {**first, **theirs} == thing.spec


@given(live=SPECS, config=SPECS)
def test_force_and_drop_leaves_nothing_of_it(live: Any, config: Any) -> None:
    thing = Thing().create(live, by="creator")
    before = thing.owners
    thing.apply(config, by="one", force=True).apply(None, by="one")
    assert thing.owned("one") == {}
    kept = [owner for owner in thing.owners if owner.writer.manager == "creator"]
    for owner, was in zip(kept, before, strict=False):
        assert difference(owner.tree, was.tree) == EMPTY


def without_order(spec: dict[str, Any]) -> dict[str, Any]:
    """Sets and keyed lists have none."""
    parts = {part["name"]: part for part in spec.get("parts", ())}
    ordered = {"tags": set(spec.get("tags", ())), "parts": parts}
    return {**spec, **{name: each for name, each in ordered.items() if name in spec}}


@given(old=SPECS, new=SPECS)
def test_a_difference_leads_from_one_state_to_the_other(old: Any, new: Any) -> None:
    found = difference_of(TYPE, at_spec(old), at_spec(new))
    assert intersection(found.changed, found.removed) == EMPTY
    same = without_order(old) == without_order(new)
    assert same == (not found.changed and not found.removed)
    back = difference_of(TYPE, at_spec(new), at_spec(old))
    both = union(everything(TYPE, at_spec(old)), everything(TYPE, at_spec(new)))
    assert difference(union(found.changed, back.changed), both) == EMPTY


@given(spec=SPECS)
def test_removing_nothing_and_everything(spec: Any) -> None:
    value = at_spec(spec)
    assert remove(TYPE, value, EMPTY) == value
    assert not remove(TYPE, value, everything(TYPE, value))


def members(tree: Tree, prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = set()
    for element, below in tree.items():
        if element == ".":
            found.add(prefix)
        else:
            found |= members(below, (*prefix, element))
    return found


TREES = SPECS.flatmap(
    lambda spec: st.sampled_from(
        (mentioned(TYPE, at_spec(spec)), everything(TYPE, at_spec(spec))["f:spec"])
    )
).map(lambda tree: {name: each for name, each in tree.items() if name != "."})


@given(left=TREES, right=TREES)
def test_sets_are_sets(left: Tree, right: Tree) -> None:
    mine, yours = members(left), members(right)
    assert members(union(left, right)) == mine | yours
    assert members(intersection(left, right)) == mine & yours
    assert members(difference(left, right)) == mine - yours
    below = {path for path in mine if any(path[: len(root)] == root for root in yours)}
    assert members(without_subtrees(left, right)) == mine - below


@given(tree=TREES)
def test_sets_read_back_as_they_were_written(tree: Tree) -> None:
    wire = orjson.loads(orjson.dumps(to_wire(tree)))
    assert from_wire(wire) == tree
    assert members(from_wire(wire)) == members(tree)


@given(live=SPECS, config=SPECS)
def test_a_state_equals_itself(live: Any, config: Any) -> None:
    one = Thing().create(live, by="creator").apply(config, by="one", force=True)
    two = Thing().create(live, by="creator").apply(config, by="one", force=True)
    assert same_fields(one.owners, two.owners)
