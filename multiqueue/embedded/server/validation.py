"""Validation of admitted objects: their metadata, the rules of their kind and of its schema."""

from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause
from multiqueue.embedded.server.cel.custom_rules import rule_causes
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion, RequestContext
from multiqueue.embedded.server.schema.metadata import validate_metadata


def validate(
    kind: Kind,
    version: KindVersion,
    obj: JsonObject,
    old: Mapping[str, Any] | None,
    context: RequestContext,
    *,
    schema_causes: Iterable[FieldCause] = (),
    is_status: bool = False,
) -> list[FieldCause]:
    """Metadata, the kind's own rules and those of its schema.

    ``old`` is the state before in the same version, and None for a new object. ``schema_causes``
    are those that ``schema.admit`` found. Through the status subresource (``is_status``) metadata
    cannot change.
    """
    if old is None:
        own = kind.hooks.validate_create(obj, context)
    elif is_status:
        own = kind.hooks.validate_status(obj, old, context)
    else:
        own = kind.hooks.validate_update(obj, old, context)
    causes = [] if is_status else validate_metadata(obj.get("metadata", {}), kind.name_rule)
    return [*causes, *own, *rule_causes(version, obj, old, schema_causes)]
