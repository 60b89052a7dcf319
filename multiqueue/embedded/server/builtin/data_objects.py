"""core/v1 Secret and ConfigMap."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, forbidden, invalid, required, too_long
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names

MAX_BYTES = 1024 * 1024

_REQUIRED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_IMMUTABLE_TEXT = "field is immutable when `immutable` is set"


def _default_secret(secret: JsonObject) -> None:
    secret["type"] = secret.get("type") or "Opaque"
    plain = secret.pop("stringData", None)
    if plain:
        data = secret.setdefault("data", {})
        for key, text in plain.items():
            data[key] = base64.b64encode(text.encode()).decode()


def _validate_secret(secret: JsonObject) -> list[FieldCause]:
    data = secret.get("data", {})
    causes = _keys(data, "data")
    if sum(len(value) * 3 // 4 for value in data.values()) > MAX_BYTES:
        causes.append(too_long("data", MAX_BYTES))
    for key in _REQUIRED_KEYS.get(secret["type"], ()):
        if key not in data:
            causes.append(required(f"data[{key}]"))
    return causes


def _validate_secret_update(
    new: JsonObject, old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    causes = _validate_secret(new)
    if new["type"] != old["type"]:
        causes.append(invalid("type", new["type"], "field is immutable"))
    return causes + _immutable(new, old, ("data",))


def _validate_config_map(config: JsonObject) -> list[FieldCause]:
    data, binary = config.get("data", {}), config.get("binaryData", {})
    causes = [*_keys(data, "data"), *_keys(binary, "binaryData")]
    causes += [
        invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in data
        if key in binary
    ]
    size = sum(len(text.encode()) for text in data.values())
    size += sum(len(value) * 3 // 4 for value in binary.values())
    if size > MAX_BYTES:
        causes.append(too_long("", MAX_BYTES))
    return causes


def _validate_config_map_update(
    new: JsonObject, old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    return [*_validate_config_map(new), *_immutable(new, old, ("data", "binaryData"))]


def _keys(data: Iterable[str], path: str) -> list[FieldCause]:
    return [cause for key in data for cause in check_name(key, f"{path}[{key}]", names.config_key)]


def _immutable(
    new: JsonObject, old: Mapping[str, Any], fields: tuple[str, ...]
) -> list[FieldCause]:
    if not old.get("immutable"):
        return []
    causes = [
        forbidden(field, _IMMUTABLE_TEXT) for field in fields if new.get(field) != old.get(field)
    ]
    if not new.get("immutable"):
        causes.append(forbidden("immutable", _IMMUTABLE_TEXT))
    return causes


SECRET_HOOKS = Hooks(
    default=_default_secret,
    validate_create=lambda secret, _context: _validate_secret(secret),
    validate_update=_validate_secret_update,
)
CONFIG_MAP_HOOKS = Hooks(
    validate_create=lambda config, _context: _validate_config_map(config),
    validate_update=_validate_config_map_update,
)
