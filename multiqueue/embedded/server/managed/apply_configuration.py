"""Server-side apply: a configuration becomes part of an object, and its fields the applier's.

(Source: KEP-555; structured-merge-diff's merge.Updater.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion
from multiqueue.embedded.server.managed.compare import mentioned, with_structs
from multiqueue.embedded.server.managed.field_sets import (
    EMPTY,
    Tree,
    difference,
    intersection,
    paths,
    union,
    without_subtrees,
)
from multiqueue.embedded.server.managed.merge import merge, remove
from multiqueue.embedded.server.managed.merge_types import MergeType
from multiqueue.embedded.server.managed.owners import (
    APPLY,
    NOBODY,
    UPDATE,
    FieldOwner,
    FieldWriter,
    Owners,
    encode_tree,
    sort,
    writer,
)
from multiqueue.embedded.server.managed.updates import (
    STRIPPED,
    States,
    after_update,
    converted,
    find_version,
    overlap,
    type_of,
    without,
    without_both,
)

BEFORE_FIRST_APPLY = "before-first-apply"
"""Owns what was there before an object's owners were kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What is applied: by whom, to what, how."""

    kind: Kind
    version: KindVersion
    config: Mapping[str, Any]
    """In ``version``, fitting its schema, without managedFields."""
    manager: str
    subresource: str
    force: bool
    reset: Tree
    """Fields that the subresource does not write."""

    @property
    def api_version(self) -> str:
        """The version of the request."""
        return self.kind.api_version(self.version.name)

    @property
    def writer(self) -> FieldWriter:
        """The applier."""
        return self._writer(APPLY, self.manager)

    @property
    def earlier(self) -> FieldWriter:
        """Who stands for all that was there before."""
        return self._writer(UPDATE, BEFORE_FIRST_APPLY)

    def _writer(self, operation: str, manager: str) -> FieldWriter:
        return writer(
            operation=operation,
            manager=manager,
            api_version=self.api_version,
            subresource=self.subresource,
        )


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that somebody else owns and that would change."""

    owner: FieldOwner
    path: str


class ApplyConflictError(Exception):
    """Somebody else owns what would change, and the applier does not insist."""

    def __init__(self, conflicts: Mapping[FieldOwner, Tree]) -> None:
        super().__init__("conflicts")
        self.fields = conflicts

    @property
    def conflicts(self) -> list[FieldConflict]:
        """One by one."""
        return [
            FieldConflict(owner, path)
            for owner, tree in self.fields.items()
            for path in paths(tree)
        ]


@dataclass(frozen=True, slots=True)
class ServerSideApplied:
    """What became of an object."""

    obj: JsonObject
    owners: Owners


def apply(
    application: Application, live: JsonObject, zero: JsonObject, owners: Owners, now: str
) -> ServerSideApplied:
    """Apply a configuration to an object.

    Args:
        application: what is applied.
        live: the object, in the version of the request; the zero object if there is none.
        zero: what an object of the kind has before anything is said.
        owners: of the live object.
        now: the time of the change.

    Raises:
        ApplyConflictError: nothing is applied.
    """
    kind, version, who = application.kind, application.version, application.writer
    if not owners:
        states = States(kind, version, old=zero, new=live, reset=application.reset)
        owners = after_update(NOBODY, states, application.earlier, now)
    merge_type = type_of(kind, version)
    wanted = without_subtrees(mentioned(merge_type, application.config), application.reset)
    others = tuple(owner for owner in owners if owner.writer.identity != who.identity)
    last = next((owner for owner in owners if owner.writer.identity == who.identity), None)
    mine = FieldOwner(who, last.time if last is not None else "", encode_tree(wanted))
    merged = merge(merge_type, live, application.config)
    if last is not None:
        merged = _pruned(application, merged, last, mine, others)
    states = States(kind, version, old=live, new=merged, reset=application.reset)
    others = _taken_from(others, states, force=application.force)
    if merged != live:
        mine = replace(mine, time=now)
    owned = without(mine, STRIPPED)
    return ServerSideApplied(merged, sort((*others, owned) if owned is not None else others))


def _taken_from(owners: Owners, states: States, *, force: bool) -> Owners:
    """What others keep of their fields.

    Raises:
        ApplyConflictError: without ``force``, if a value changes that others own.
    """
    conflicts: dict[FieldOwner, Tree] = {}
    kept = []
    for owner in owners:
        found = states.difference(owner.writer.api_version)
        if found is None:
            continue
        if fields := overlap(owner, found.changed):
            conflicts[owner] = fields
        if rest := without_both(owner, found):
            kept.append(rest)
    if conflicts and not force:
        raise ApplyConflictError(conflicts)
    return tuple(kept)


def _pruned(
    application: Application, merged: JsonObject, last: FieldOwner, mine: FieldOwner, others: Owners
) -> JsonObject:
    """Without what the applier applied before, does not now, and nobody else owns."""
    kind, version = application.kind, application.version
    then = find_version(kind, last.writer.api_version)
    if then is None or (then is version and not difference(last.tree, mine.tree)):
        return merged
    then_type = type_of(kind, then)
    before = converted(kind, version, then, merged)
    applied = with_structs(then_type, last.tree)
    after: JsonObject = remove(then_type, before, applied) or {}
    current = then
    for wanted, owned in _owned_by_version(kind, (mine, *others), first=then):
        before = converted(kind, current, wanted, before)
        after = converted(kind, current, wanted, after)
        after = _with_owned(type_of(kind, wanted), before, after, owned)
        current = wanted
    before = converted(kind, current, then, before)
    after = converted(kind, current, then, after)
    gone = intersection(difference(_all(then_type, before), _all(then_type, after)), applied)
    return converted(kind, then, version, remove(then_type, before, gone) or {})


def _owned_by_version(
    kind: Kind, owners: Owners, *, first: KindVersion
) -> list[tuple[KindVersion, Tree]]:
    """What is owned in each version; ``first`` comes first, for other versions may need what it
    keeps.
    """
    owned: dict[str, Tree] = {}
    for owner in owners:
        name = owner.writer.api_version
        owned[name] = union(owned.get(name, EMPTY), owner.tree)
    found = [
        (version, owned[name])
        for name in sorted(owned)
        if (version := find_version(kind, name)) is not None
    ]
    return sorted(found, key=lambda each: each[0] is not first)


def _with_owned(
    merge_type: MergeType, before: JsonObject, after: JsonObject, owned: Tree
) -> JsonObject:
    """What was removed, with what is owned put back."""
    kept = union(_all(merge_type, after), with_structs(merge_type, owned))
    return remove(merge_type, before, difference(_all(merge_type, before), kept)) or {}


def _all(merge_type: MergeType, obj: JsonObject) -> Tree:
    return with_structs(merge_type, mentioned(merge_type, obj))
