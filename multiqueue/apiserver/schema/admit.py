"""The one way from a decoded request body to an object worth storing: prune, report, default, validate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from multiqueue.apiserver.causes import Cause
from multiqueue.apiserver.kinds import JsonObject, Kind, KindVersion, RequestContext

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
    """Message of a 400 BadRequest: the body cannot be decoded as this kind (or strict errors)."""
    causes: list[Cause] = field(default_factory=list)
    """Message of a 422 Invalid: wrong types or values by the schema."""


def admit(
    kind: Kind,
    version: KindVersion,
    obj: Mapping[str, Any],
    *,
    field_validation: FieldValidation = "Warn",
    raw: bytes | None = None,
) -> Admitted:
    """Prune, default and check a body against the schema of its version.

    Args:
        kind: the kind.
        version: the version of the request.
        obj: the body, or a patched object. ``apiVersion`` and ``kind`` are expected to be right.
        field_validation: the query parameter of the same name.
        raw: the bytes of the body, to find duplicate fields; None for patched objects.
    """
    _ = kind, version, field_validation, raw
    return Admitted(obj=dict(obj))


def validate_create(
    kind: Kind, version: KindVersion, obj: JsonObject, context: RequestContext
) -> list[Cause]:
    """Metadata and the kind's own rules for a new object; the schema was checked by :func:`admit`."""
    _ = version
    return kind.hooks.validate_create(obj, context)


def validate_update(
    kind: Kind, version: KindVersion, obj: JsonObject, old: Mapping[str, Any], context: RequestContext
) -> list[Cause]:
    """The same for an update; ``old`` in the same version."""
    _ = version
    return kind.hooks.validate_update(obj, old, context)


def validate_status(
    kind: Kind, version: KindVersion, obj: JsonObject, old: Mapping[str, Any], context: RequestContext
) -> list[Cause]:
    """The same for an update through the status subresource."""
    _ = version
    return kind.hooks.validate_status(obj, old, context)
