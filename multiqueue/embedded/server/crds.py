"""Serves the kinds of CustomResourceDefinitions, and removes them on deletion."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.auth import API_SERVER
from multiqueue.embedded.server.background import Background
from multiqueue.embedded.server.converters import Converters, with_conversion
from multiqueue.embedded.server.custom import kind_from_crd
from multiqueue.embedded.server.delete import (
    CRD_CLEANUP,
    delete_all,
    is_finished,
)
from multiqueue.embedded.server.kinds import GroupPlural, JsonObject, Kind, Registry
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.status import forbidden
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.versions import to_storage
from multiqueue.embedded.server.watch import Event

KEY = ("apiextensions.k8s.io", "customresourcedefinitions")
DELETING = "CustomResource deletion is in progress"


def establish(registry: Registry, crd: JsonObject, now: datetime) -> None:
    """Fill the status of a definition that is about to be stored: names, conditions, stored
    versions.

    A definition whose names collide with another kind of its group is stored, but not served.
    """
    status = crd.setdefault("status", {})
    conditions = status.setdefault("conditions", [])
    conflict = _name_conflict(registry, crd)
    if conflict is None:
        status["acceptedNames"] = _complete_names(crd["spec"]["names"])
        _set(conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
        _set(
            conditions,
            "Established",
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
            now,
        )
    else:
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})
        _set(conditions, "NamesAccepted", "False", *conflict, now)
        if _condition(conditions, "Established") != "True":
            _set(
                conditions,
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
                now,
            )
    stored = status.setdefault("storedVersions", [])
    for version in crd["spec"]["versions"]:
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])


def is_established(crd: Mapping[str, Any]) -> bool:
    """Whether the kind is served."""
    return _condition((crd.get("status") or {}).get("conditions") or (), "Established") == "True"


def check_open(store: ObjectStore, kind: Kind, name: str) -> None:
    """Refuse new objects of a kind whose definition is being deleted.

    Raises:
        StatusError: 403.
    """
    if not kind.builtin:
        definition = store.get(KEY, "", kind.resource)
        if definition is not None and definition.deleting:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(kind, name, why)


def migrated(kind: Kind, raw: bytes) -> bytes:
    """An object as it is to be kept after its definition chose another storage version."""
    obj = orjson.loads(raw)
    name = obj["apiVersion"].rpartition("/")[2]
    if name == kind.storage_version.name:
        return raw
    version = next((version for version in kind.versions if version.name == name), None)
    return raw if version is None else orjson.dumps(to_storage(kind, version, obj))


class CrdController:
    """Keeps the registry in step with the stored definitions, and removes the objects of deleted
    ones.
    """

    def __init__(self, objects: Objects, converters: Converters) -> None:
        self._objects = objects
        self._converters = converters
        self.background: Background[str] = Background("customresourcedefinitions", self._clean_up)

    def observe(self, event: Event) -> None:
        """Serve a new or changed definition; stop serving a removed one."""
        entry = event.entry
        if entry.collection == KEY:
            self._observe_definition(event)
        elif event.deleted:
            group, plural = entry.collection
            definition = self._objects.store.get(KEY, "", f"{plural}.{group}")
            if definition is not None and definition.deleting:
                self.background.add(definition.name)

    def resume(self) -> None:
        """Serve what was served before a restart; call before other objects are loaded."""
        for entry in self._objects.store.collection(KEY).entries():
            self._serve(entry.decode())
            if entry.deleting:
                self.background.add(entry.name)

    def _observe_definition(self, event: Event) -> None:
        crd = event.entry.decode()
        key = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
        if event.deleted:
            self._objects.registry.remove(*key)
            self._objects.store.forget_collection(key)
            return
        if event.previous is None or (
            self._served_part(event.previous.decode()) != self._served_part(crd)
        ):
            self._serve(crd)
            if event.previous is not None:
                self._refresh(key)
        if event.entry.deleting:
            self.background.add(event.entry.name)

    def _serve(self, crd: JsonObject) -> None:
        if is_established(crd):
            kind = kind_from_crd(crd)
            self._objects.registry.add(
                with_conversion(kind, crd["spec"].get("conversion") or {}, self._converters)
            )

    def _served_part(self, crd: Mapping[str, Any]) -> Any:
        """What a change of which makes objects look different."""
        spec = {**crd["spec"], "conversion": None}  # functions convert, whatever it says
        return spec, (crd.get("status") or {}).get("acceptedNames"), is_established(crd)

    def _refresh(self, key: GroupPlural) -> None:
        """Bring stored objects in line with a changed definition; watches end, clients start over
        with the new schema.
        """
        kind = self._objects.registry.get(*key)
        if kind is not None:
            self._objects.store.rewrite(key, lambda raw: migrated(kind, raw))

    async def _clean_up(self, name: str) -> None:
        store = self._objects.store
        definition = store.get(KEY, "", name)
        if definition is None or not definition.deleting:
            return
        crd = definition.decode()
        if CRD_CLEANUP not in (crd["metadata"].get("finalizers") or ()):
            return
        self._say(crd, "True", "InstanceDeletionInProgress", DELETING)
        if crd != definition.decode():
            store.put(KEY, crd)
        kind = self._objects.registry.get(crd["spec"]["group"], crd["spec"]["names"]["plural"])
        call = self._objects.call(API_SERVER)
        remaining = await delete_all(self._objects, call, kind) if kind is not None else 0
        definition = store.get(KEY, "", name)
        if definition is not None and not remaining:
            crd = definition.decode()
            metadata = crd["metadata"]
            metadata["finalizers"] = [
                each for each in metadata["finalizers"] if each != CRD_CLEANUP
            ]
            self._say(crd, "False", "InstanceDeletionCompleted", "removed all instances")
            if is_finished(crd):
                store.remove(definition, crd)
            else:
                store.put(KEY, crd)

    def _say(self, crd: JsonObject, status: str, reason: str, message: str) -> None:
        """Set the Terminating condition of a definition."""
        conditions = crd.setdefault("status", {}).setdefault("conditions", [])
        _set(conditions, "Terminating", status, reason, message, self._objects.clock.now())


def _complete_names(names: Mapping[str, Any]) -> JsonObject:
    kind = names["kind"]
    return {"listKind": kind + "List", "singular": kind.lower(), **names}


def _name_conflict(registry: Registry, crd: Mapping[str, Any]) -> tuple[str, str] | None:
    """(reason, message) of the last name, in Kubernetes' order, that another kind has."""
    spec = crd["spec"]
    names = spec["names"]
    others = [
        kind for kind in registry if kind.group == spec["group"] and kind.plural != names["plural"]
    ]
    kinds = {name for kind in others for name in (kind.kind, kind.list_kind)}
    resources = {
        name for kind in others for name in (kind.plural, kind.singular, *kind.short_names)
    }
    checks: tuple[tuple[str, Iterable[str], set[str]], ...] = (
        ("PluralConflict", (names["plural"],), resources),
        ("SingularConflict", (names.get("singular") or names["kind"].lower(),), resources),
        ("ShortNamesConflict", names.get("shortNames") or (), resources),
        ("KindConflict", (names["kind"],), kinds),
        ("ListKindConflict", (names.get("listKind") or names["kind"] + "List",), kinds),
    )
    conflict = None
    for reason, wanted, taken in checks:
        for name in wanted:
            if name in taken:
                conflict = reason, f'"{name}" is already in use'
    return conflict


def _condition(conditions: Iterable[Mapping[str, Any]], type_: str) -> str:
    return next((str(each.get("status")) for each in conditions if each.get("type") == type_), "")


def _set(  # noqa: PLR0917 - the fields of a condition in their order
    conditions: list[JsonObject], type_: str, status: str, reason: str, message: str, now: datetime
) -> None:
    wanted = {"type": type_, "status": status, "reason": reason, "message": message}
    for index, condition in enumerate(conditions):
        if condition.get("type") == type_:
            unchanged = condition.get("status") == status
            time = condition.get("lastTransitionTime") if unchanged else None
            conditions[index] = {**wanted, "lastTransitionTime": time or format_time(now)}
            return
    conditions.append({**wanted, "lastTransitionTime": format_time(now)})
