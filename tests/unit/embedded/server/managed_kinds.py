"""A kind whose fields merge in every way, and applying to its objects without a server."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.kinds import Kind, KindVersion
from multiqueue.embedded.server.managed.apply_configuration import Application, apply
from multiqueue.embedded.server.managed.field_sets import to_wire
from multiqueue.embedded.server.managed.owners import NOBODY, Owners
from multiqueue.embedded.server.managed.tracking import after_change, after_create
from multiqueue.embedded.server.managed.updates import States, reset_fields
from multiqueue.embedded.server.managed.zero import zero_object

NOW = "2026-01-01T00:00:00Z"
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "string"},
        },
        "list": {"type": "array", "items": {"type": "string"}},
        "tags": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "string"},
        },
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "weight": {"type": "integer"},
                    "more": {"type": "object", "additionalProperties": {"type": "integer"}},
                },
            },
        },
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def make_version(name: str = "v1", **more: Any) -> KindVersion:
    """A version with that schema."""
    schema = {"type": "object", "properties": {"spec": SPEC}}
    return KindVersion(name=name, **{"schema": schema, **more})


def make_kind(*versions: KindVersion) -> Kind:
    """The kind."""
    return Kind(
        group="example.com",
        plural="things",
        singular="thing",
        kind="Thing",
        list_kind="ThingList",
        namespaced=True,
        versions=versions or (make_version(),),
        builtin=False,
    )


class Thing:
    """One object and the owners of its fields, through a history of writes."""

    def __init__(self, kind: Kind | None = None) -> None:
        self.kind = kind or make_kind()
        self.obj: dict[str, Any] = {}
        self.owners: Owners = NOBODY

    @property
    def spec(self) -> dict[str, Any]:
        """What is stored, without the nulls that a server drops."""
        spec = self.obj.get("spec") or {}
        return {name: each for name, each in spec.items() if each is not None}

    def body(self, spec: Mapping[str, Any] | None, version: KindVersion) -> dict[str, Any]:
        """A configuration."""
        head = {"apiVersion": self.kind.api_version(version.name), "kind": "Thing"}
        return {**head, "metadata": {"name": "a"}, **({"spec": spec} if spec is not None else {})}

    def create(self, spec: Mapping[str, Any], *, by: str) -> "Thing":
        """Create it."""
        version = self.kind.versions[0]
        self.obj = self.body(spec, version)
        self.owners = after_create(self.kind, version, self.obj, owners=NOBODY, manager=by, now=NOW)
        return self

    def apply(
        self,
        spec: Mapping[str, Any] | None,
        *,
        by: str,
        force: bool = False,
        version: KindVersion | None = None,
        now: str = NOW,
    ) -> "Thing":
        """Apply a configuration, in the storage version of the object or another."""
        version = version or self.kind.versions[0]
        application = Application(
            kind=self.kind,
            version=version,
            config=self.body(spec, version),
            manager=by,
            subresource="",
            force=force,
            reset=reset_fields(version, "", builtin=False),
        )
        zero = {**self.body(None, version), **zero_object(self.kind, version)}
        live = self.obj or zero
        done = apply(application, live, zero, self.owners, now)
        self.obj, self.owners = done.obj, done.owners
        return self

    def update(self, spec: Mapping[str, Any], *, by: str, now: str = NOW) -> "Thing":
        """Replace the spec."""
        version = self.kind.versions[0]
        new = {**self.obj, "spec": dict(spec)}
        states = States(self.kind, version, old=self.obj, new=new, reset={})
        self.owners = after_change(states, owners=self.owners, manager=by, subresource="", now=now)
        self.obj = new
        return self

    def owned(self, by: str) -> dict[str, Any]:
        """The ``fieldsV1`` of a manager below ``spec``; empty if it owns nothing."""
        for owner in self.owners:
            if owner.writer.manager == by:
                spec = to_wire(owner.tree).get("f:spec", {})
                return dict(spec)
        return {}
