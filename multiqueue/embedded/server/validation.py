"""Validation of admitted objects: their metadata, the rules of their kind and of its schema."""

from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause
from multiqueue.embedded.server.cel.custom_rules import rule_causes
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion, RequestContext
from multiqueue.embedded.server.schema.metadata import validate_metadata


def validate_create(
    kind: Kind,
    version: KindVersion,
    obj: JsonObject,
    context: RequestContext,
    *,
    schema_causes: Iterable[FieldCause] = (),
) -> list[FieldCause]:
    """Metadata, the kind's own rules and those of its schema, for a new object.

    ``schema_causes`` are those that ``schema.admit`` found.
    """
    causes = validate_metadata(obj.get("metadata", {}), kind.name_rule)
    causes += kind.hooks.validate_create(obj, context)
    return causes + rule_causes(version, obj, None, schema_causes)


def validate_update(
    kind: Kind,
    version: KindVersion,
    obj: JsonObject,
    old: Mapping[str, Any],
    context: RequestContext,
    *,
    schema_causes: Iterable[FieldCause] = (),
) -> list[FieldCause]:
    """The same for an update; ``old`` in the same version."""
    causes = validate_metadata(obj.get("metadata", {}), kind.name_rule)
    causes += kind.hooks.validate_update(obj, old, context)
    return causes + rule_causes(version, obj, old, schema_causes)


def validate_status(
    kind: Kind,
    version: KindVersion,
    obj: JsonObject,
    old: Mapping[str, Any],
    context: RequestContext,
    *,
    schema_causes: Iterable[FieldCause] = (),
) -> list[FieldCause]:
    """The same for an update through the status subresource."""
    causes = kind.hooks.validate_status(obj, old, context)
    return causes + rule_causes(version, obj, old, schema_causes)
