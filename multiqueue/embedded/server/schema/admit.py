"""Prepares a request body for validation: prunes, reports unknown fields, sets defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from multiqueue.embedded.server.causes import FieldCause
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion
from multiqueue.embedded.server.schema.strict import duplicate_fields, unknown_fields
from multiqueue.embedded.server.schema.structural import compile_structural
from multiqueue.embedded.server.schema.typed import Findings, MismatchError, compile_typed, mismatch
from multiqueue.embedded.server.schema.types import schema_of
from multiqueue.embedded.server.schema.validate import Validator

FieldValidation = Literal["Strict", "Warn", "Ignore"]


@dataclass(slots=True, kw_only=True)
class Admitted:
    """What became of a request body. At most one of ``bad_request`` and ``causes`` is set."""

    obj: JsonObject
    """Pruned and defaulted; a new object, the body is not changed."""
    warnings: list[str] = field(default_factory=list)
    """Texts for ``Warning: 299 - "<text>"`` headers."""
    strict_errors: list[str] = field(default_factory=list)
    """With Strict: ``unknown field "spec.foo"``, ``duplicate field "spec"``."""
    bad_request: str | None = None
    """Message of a 400: the body cannot be decoded as this kind, or has strict errors."""
    causes: list[FieldCause] = field(default_factory=list)
    """Causes of a 422 Invalid: wrong types or values by the schema."""


def admit(
    kind: Kind,
    version: KindVersion,
    obj: Mapping[str, Any],
    *,
    field_validation: FieldValidation = "Warn",
    raw: bytes | None = None,
    applied: bool = False,
    known: Mapping[str, Any] | None = None,
) -> Admitted:
    """Prune, default and check a body against the schema of its version.

    Args:
        kind: the kind.
        version: the version of the request.
        obj: the body, or a patched object. ``apiVersion`` and ``kind`` are expected to be right.
        field_validation: the query parameter of the same name.
        raw: the bytes of the body, to find duplicate fields; None for patched objects.
        applied: it comes of an apply: as in Kubernetes, nulls are not forgiven then.
        known: an object of a custom kind that this version admitted before: what ``obj`` has taken
            over from it is taken as it is, and not copied.
    """
    engine = _engine(kind, version)
    findings = Findings(applied=applied)
    try:
        clean = engine.decode(obj, findings, known or {})
    except MismatchError:
        text = f"{_undecodable(kind, version)}: {engine.mismatch(obj)}"
        return Admitted(obj=dict(obj), bad_request=text)
    admitted = Admitted(obj=clean)
    if field_validation != "Ignore":
        _report(engine, admitted, obj, findings, raw, strict=field_validation == "Strict")
    if admitted.strict_errors:
        errors = ", ".join(admitted.strict_errors)
        admitted.bad_request = f"{_undecodable(kind, version)}: strict decoding error: {errors}"
        return admitted
    kind.hooks.default(clean)
    admitted.causes = engine.causes(clean, findings)
    return admitted


def _undecodable(kind: Kind, version: KindVersion) -> str:
    return f'{kind.kind} in version "{version.name}" cannot be handled as a {kind.kind}'


def _report(
    engine: "SchemaEngine",
    admitted: Admitted,
    obj: Mapping[str, Any],
    findings: Findings,
    raw: bytes | None,
    *,
    strict: bool,
) -> None:
    texts: list[str] = []
    if findings.dropped:
        texts += [f'unknown field "{path}"' for path in engine.unknown(obj)]
    if raw is not None:
        texts += [f'duplicate field "{path}"' for path in duplicate_fields(raw, obj)]
    if strict:
        admitted.strict_errors = texts
    else:
        admitted.warnings = texts


class SchemaEngine(Protocol):
    """How the objects of one version are decoded and checked."""

    def decode(
        self, obj: Mapping[str, Any], findings: Findings, known: Mapping[str, Any]
    ) -> JsonObject:
        """A pruned copy. Raises MismatchError."""

    def mismatch(self, obj: Mapping[str, Any]) -> str:
        """Words for that MismatchError."""

    def unknown(self, obj: Mapping[str, Any]) -> list[str]:
        """Paths of unknown fields."""

    def causes(self, obj: Mapping[str, Any], findings: Findings) -> list[FieldCause]:
        """What is wrong by the schema."""


class TypedEngine:
    """Built-in kinds: decoded into their types; their own hooks validate."""

    def __init__(self, version: KindVersion) -> None:
        self._schema = version.schema
        self._coerce = compile_typed(version.schema)

    def decode(
        self, obj: Mapping[str, Any], findings: Findings, known: Mapping[str, Any]
    ) -> JsonObject:
        """See Engine."""
        _ = known
        clean: JsonObject = self._coerce(obj, findings)
        return clean

    def mismatch(self, obj: Mapping[str, Any]) -> str:
        """See Engine."""
        return mismatch(self._schema, obj)

    def unknown(self, obj: Mapping[str, Any]) -> list[str]:
        """See Engine."""
        return unknown_fields(self._schema, obj)

    def causes(self, obj: Mapping[str, Any], findings: Findings) -> list[FieldCause]:
        """See Engine."""
        _ = obj, findings
        return []


class StructuralEngine:
    """Custom kinds: everything by the schema of their CustomResourceDefinition."""

    def __init__(self, version: KindVersion) -> None:
        self._schema = version.schema
        self._walk = compile_structural(version.schema, root=True)
        self._validator = Validator(version.schema)

    def decode(
        self, obj: Mapping[str, Any], findings: Findings, known: Mapping[str, Any]
    ) -> JsonObject:
        """See Engine."""
        kept = {
            name: value
            for name, value in obj.items()
            if name in known and value is known[name] and name not in _IMPLIED
        }
        if not kept:
            clean: JsonObject = self._walk(obj, findings)
            return clean
        rest = {name: value for name, value in obj.items() if name not in kept}
        clean = {**self._walk(rest, findings), **kept}
        return {name: clean[name] for name in (*obj, *clean) if name in clean}

    def mismatch(self, obj: Mapping[str, Any]) -> str:
        """Only metadata can mismatch; the rest is left to validation."""
        return mismatch({"properties": _IMPLIED}, obj)

    def unknown(self, obj: Mapping[str, Any]) -> list[str]:
        """See Engine."""
        properties = {**self._schema.get("properties", {}), **_IMPLIED}
        return unknown_fields({**self._schema, "properties": properties}, obj)

    def causes(self, obj: Mapping[str, Any], findings: Findings) -> list[FieldCause]:
        """See Engine."""
        return self._validator.causes(obj, duplicates=findings.duplicates)


_IMPLIED: Mapping[str, Any] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": schema_of("meta.ObjectMeta"),
}

_engines: WeakKeyDictionary[KindVersion, SchemaEngine] = WeakKeyDictionary()


def _engine(kind: Kind, version: KindVersion) -> SchemaEngine:
    engine = _engines.get(version)
    if engine is None:
        engine = _engines[version] = (
            TypedEngine(version) if kind.builtin else StructuralEngine(version)
        )
    return engine
