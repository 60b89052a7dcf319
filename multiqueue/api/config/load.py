"""Reads the text of a configuration file into a checked `Configuration`."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec

from multiqueue.api.config.gates import Gate
from multiqueue.api.config.types import V1BETA1, V1BETA2, Configuration, Section
from multiqueue.api.config.upgrade import find_wrong_flags, take_newer, upgrade
from multiqueue.api.config.validate import find_errors
from multiqueue.api.durations import Duration, parse_duration
from multiqueue.lib import bounded_yaml


class ConfigurationError(ValueError):
    """A configuration that cannot be used.

    ``errors`` has one line per problem: path, value, advice.
    """

    def __init__(self, errors: tuple[str, ...]) -> None:
        super().__init__("invalid configuration:\n" + "\n".join(f"  {error}" for error in errors))
        self.errors = errors


def load_configuration(text: str) -> Configuration:
    """Read the YAML (or JSON) of a Configuration of version v1beta2 or v1beta1.

    Raises:
        ConfigurationError: lists every problem that was found.
    """
    try:
        raw = bounded_yaml.load(text)
    except bounded_yaml.YamlError as error:
        raise ConfigurationError((f"not YAML: {error}",)) from error
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigurationError((f"the file must hold a mapping, not {type(raw).__name__}",))
    return build_configuration(raw)


def build_configuration(raw: Mapping[str, Any]) -> Configuration:
    """Build a checked Configuration from a parsed file.

    Raises:
        ConfigurationError: lists every problem that was found.
    """
    version = raw.get("apiVersion", V1BETA2)
    if version not in (V1BETA1, V1BETA2):
        raise ConfigurationError((f'apiVersion: "{version}" is not supported; use "{V1BETA2}"',))
    if raw.get("kind", "Configuration") != "Configuration":
        raise ConfigurationError((f'kind: "{raw["kind"]}" is not supported; use "Configuration"',))
    body = {k: v for k, v in raw.items() if k not in {"apiVersion", "kind"}}
    turned_off = False
    errors: list[str] = []
    body = copy.deepcopy(body)
    if version == V1BETA1:
        errors.extend(take_newer(body))
        errors.extend(find_wrong_flags(body))
        body, turned_off = upgrade(body)
    body = _without_nulls(body)
    errors.extend(_take_unknown(Configuration, body, ""))
    config = _convert(body, errors)
    # A value that cannot be read would be checked as a default that nobody wrote.
    unreadable = tuple(map(_path, errors))
    errors.extend(e for e in find_errors(config) if not _is_within(_path(e), unreadable))
    if errors:
        raise ConfigurationError(tuple(errors))
    if turned_off or config.gates.enabled(Gate.DISABLE_WAIT_FOR_PODS_READY):
        return msgspec.structs.replace(config, wait_for_pods_ready=None)
    return config


def _convert(body: dict[str, Any], errors: list[str]) -> Configuration:
    """Convert the body; remove values of a wrong type and add an error for each."""
    while True:
        try:
            return msgspec.convert(body, Configuration, dec_hook=_decode)
        except msgspec.ValidationError as error:
            errors.append(_reword(_name_key(str(error), body)))
            path = re.search(r" - at `\$\.([^`\[]*)", str(error))
            if path is None:
                raise ConfigurationError(tuple(errors)) from error
            *parents, key = path.group(1).split(".")
            place = body
            for parent in parents:
                place = place[parent]
            del place[key]


_GOT: Mapping[str, type] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "array": list,
    "object": dict,
}
"""Types that msgspec names in its messages, in the words of YAML."""


def _name_key(message: str, body: Mapping[str, Any]) -> str:
    """Insert the key of a mapping that msgspec leaves out: ``featureGates[...]``."""
    match = re.search(r"got `(\w+)` - at `\$\.([^`\[]*)\[\.\.\.\]`", message)
    if match is None or match[1] not in _GOT:
        return message
    place: Any = body
    for name in match[2].split("."):
        place = place[name]
    pairs = place.items() if isinstance(place, dict) else ()
    wrong = [key for key, value in pairs if type(value) is _GOT[match[1]]]
    return message.replace("[...]", f"[{wrong[0]}]") if wrong else message


def _path(error: str) -> str:
    return error.partition(":")[0]


def _is_within(path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of these places, or below or above one."""
    return any(
        one == other or (one.startswith(other) and one[len(other)] in ".[")
        for place in places
        for one, other in ((path, place), (place, path))
    )


def _decode(type_: type, value: Any) -> Any:
    if type_ is Duration:
        if not isinstance(value, str):
            raise ValueError(
                f'{value!r} is not a duration; write a text with a unit, such as "30s"'
            )
        return parse_duration(value)
    raise NotImplementedError


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _take_unknown(type_: Any, value: Any, path: str) -> Iterator[str]:
    """Remove every unknown key; yield an error with the most similar known key."""
    sections = [
        t for t in (type_, *get_args(type_)) if isinstance(t, type) and issubclass(t, Section)
    ]
    if not sections:
        return
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _take_unknown(sections[0], item, f"{path}[{i}]")
        return
    if not isinstance(value, dict):
        return
    fields = {f.encode_name: f.type for f in msgspec.structs.fields(sections[0])}
    for key, child in list(value.items()):
        child_path = f"{path}.{key}" if path else str(key)
        if key in fields:
            yield from _take_unknown(fields[key], child, child_path)
            continue
        close = difflib.get_close_matches(str(key), list(fields), n=1)
        hint = f'did you mean "{close[0]}"?' if close else f"known fields: {', '.join(fields)}"
        del value[key]
        yield f"{child_path}: unknown field; {hint}"


def _reword(message: str) -> str:
    """Move msgspec's path from the end of its message to the front."""
    text, _, path = message.partition(" - at `$")
    path = re.sub(r"\[\.\.\.\]", "[]", path.rstrip("`")).lstrip(".")
    return f"{path or 'the file'}: {text[:1].lower()}{text[1:]}"
