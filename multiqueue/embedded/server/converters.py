"""Conversion between the versions of a custom kind."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion

log = structlog.get_logger(__name__)

Converter = Callable[[dict[str, Any], str], dict[str, Any]]
"""(object, wanted apiVersion) -> the object in that version."""
Converters = Mapping[tuple[str, str], Converter]
"""By (group, kind)."""


def with_conversion(kind: Kind, conversion: Mapping[str, Any], converters: Converters) -> Kind:
    """Let the versions of a kind convert through an injected converter; without one only apiVersion
    changes.

    Deviates: a conversion webhook that the definition names is never called.
    """
    converter = converters.get((kind.group, kind.kind))
    if converter is None:
        if conversion.get("strategy") == "Webhook":
            log.warning("conversion webhooks are not called here", resource=kind.resource)
        return kind
    storage = kind.api_version(kind.storage_version.name)
    versions = tuple(_converting(kind, version, storage, converter) for version in kind.versions)
    return replace(kind, versions=versions)


def _converting(
    kind: Kind, version: KindVersion, storage: str, converter: Converter
) -> KindVersion:
    if version.storage:
        return version
    api_version = kind.api_version(version.name)
    return replace(
        version,
        to_storage=lambda obj: _kept_identity(obj, converter(obj, storage)),
        from_storage=lambda obj: _kept_identity(obj, converter(obj, api_version)),
    )


def _kept_identity(before: JsonObject, after: JsonObject) -> JsonObject:
    """Conversion may change labels and annotations only, as for conversion webhooks."""
    metadata = dict(before["metadata"])
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
        if value := (after.get("metadata") or {}).get(name):
            metadata[name] = value
    return {**after, "metadata": metadata}
