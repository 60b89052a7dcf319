"""Conversion between the versions of a custom kind."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from multiqueue.apiserver.kinds import JsonObject, Kind, KindVersion
from multiqueue.apiserver.status import internal_error

Converter = Callable[[dict[str, Any], str], dict[str, Any]]
"""(object, wanted apiVersion) -> the object in that version."""
Converters = Mapping[tuple[str, str], Converter]
"""By (group, kind)."""


def with_conversion(kind: Kind, conversion: Mapping[str, Any], converters: Converters) -> Kind:
    """Let the versions of a kind convert through an injected converter; without one only apiVersion
    changes.

    A definition that names a webhook and has no injected converter answers 500 for all but its
    storage version.
    """
    converter = converters.get((kind.group, kind.kind))
    if converter is None and conversion.get("strategy") == "Webhook":
        converter = _unavailable  # TODO(#4): conversion webhooks
    if converter is None:
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


def _unavailable(obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    raise internal_error(
        f"conversion of {obj.get('kind')} from {obj.get('apiVersion')} to {api_version} needs a "
        "conversion webhook, "
        "which this server does not call yet; use the storage version"
    )
