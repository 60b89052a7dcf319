"""Reads kubeconfigs, merges them as kubectl does, and picks one context.

Error messages name entries and keys, never their values: users paste messages into tickets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiqueue.kube.errors import CredentialsError
from multiqueue.lib import bounded_yaml
from multiqueue.lib.bounded_yaml import YamlError, YamlLimits
from multiqueue.lib.words import words

SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_TEXT_KEYS = words(
    "server certificate-authority-data tls-server-name proxy-url token "
    "client-certificate-data client-key-data username password as as-uid"
)
MAX_NAME = 100
"""Characters of a name that a message shows."""
MAX_NAMES = 20
"""Names that a message shows."""
_CONTEXT_KEYS = ("cluster", "user", "namespace")
_PATH_KEYS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigContext:
    """The entries of the kubeconfig that one context points to.

    Values that this program reads are strings.
    """

    name: str
    context: Mapping[str, Any]
    namespace: str
    cluster_name: str
    cluster: Mapping[str, Any]
    user_name: str
    user: Mapping[str, Any]


def load_files(paths: str) -> dict[str, Any]:
    """Read one kubeconfig, or a list joined like ``KUBECONFIG``.

    If several files have an entry, the first one counts. Relative paths inside become absolute.
    """
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"} | {s: [] for s in SECTIONS}
    found = False
    for text in filter(None, paths.split(os.pathsep)):
        path = Path(text).expanduser()
        if path.is_dir():
            raise CredentialsError(f'kubeconfig "{path}" is a folder; name a file in it')
        if not path.is_file():
            continue
        found = True
        try:
            _merge(merged, _read(path), path)
        except ValueError:
            raise CredentialsError(f'kubeconfig "{path}": a path holds a null character') from None
    if not found:
        raise CredentialsError(f'kubeconfig "{paths}": no such file')
    return merged


def parse(
    text: str | bytes, *, source: str = "kubeconfig", limits: YamlLimits = bounded_yaml.LIMITS
) -> dict[str, Any]:
    """Parse a kubeconfig's YAML or JSON.

    Raises:
        CredentialsError: it is not a mapping, or not YAML; the content is not repeated.
    """
    try:
        value = bounded_yaml.load(text, limits)
    except YamlError as error:
        raise CredentialsError(f"{source} is not valid YAML: {error}") from None
    if not isinstance(value, dict):
        raise CredentialsError(f"{source} is empty or not a mapping")
    return value


def pick_context(config: Mapping[str, Any], context: str | None = None) -> KubeconfigContext:
    """Return the entries of the named (or the current) context.

    Raises:
        CredentialsError: something is missing; the message says which entry to add or to mend.
    """
    if not isinstance(config, Mapping):
        raise CredentialsError("kubeconfig is empty or not a mapping")
    name = context or config.get("current-context")
    if not name or not isinstance(name, str):
        raise CredentialsError("kubeconfig has no current-context; set one, or name a context")
    picked = _entry(config, "contexts", name)
    cluster_name, user_name = picked.get("cluster"), picked.get("user") or ""
    if not cluster_name:
        raise CredentialsError(f'kubeconfig: context "{shown(name)}" names no cluster')
    cluster = _entry(config, "clusters", cluster_name)
    if not cluster.get("server"):
        raise CredentialsError(f'kubeconfig: cluster "{shown(cluster_name)}" has no server')
    return KubeconfigContext(
        name=name,
        context=picked,
        namespace=picked.get("namespace") or "default",
        cluster_name=cluster_name,
        cluster=cluster,
        user_name=user_name,
        user=_entry(config, "users", user_name) if user_name else {},
    )


def shown(name: object) -> str:
    """Return the name of an entry in a form that is safe in a message."""
    if not isinstance(name, str):
        return ""
    text = name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _entry(config: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    word = SECTIONS[section]
    entries = config.get(section)
    entries = entries if isinstance(entries, list) else []
    for entry in entries:
        if isinstance(entry, Mapping) and entry.get("name") == name:
            value, what = entry.get(word) or {}, f'kubeconfig: {word} "{shown(name)}"'
            if not isinstance(value, Mapping):
                raise CredentialsError(f"{what} is not a mapping")
            for key in (*_TEXT_KEYS, *_PATH_KEYS) if word != "context" else _CONTEXT_KEYS:
                if not isinstance(value.get(key), str | None):
                    raise CredentialsError(f"{what}: {key} is not a string")
            return value
    names = [shown(each.get("name")) for each in entries if isinstance(each, Mapping)]
    there = f"; there are: {', '.join(names[:MAX_NAMES])}" if names else ""
    raise CredentialsError(f'kubeconfig: no {word} "{shown(name)}" in {section}{there}')


def _read(path: Path) -> dict[str, Any]:
    try:
        config = parse(path.read_bytes(), source=f'kubeconfig "{path}"')
    except OSError as error:
        raise CredentialsError(f'kubeconfig "{path}": {error.strerror}') from error
    if config.get("kind") and config["kind"] != "Config":
        kind = shown(config["kind"]) or "no text"
        raise CredentialsError(f'kubeconfig "{path}" is no kubeconfig: its kind is {kind}')
    return config


def _merge(merged: dict[str, Any], config: dict[str, Any], path: Path) -> None:
    for section, word in SECTIONS.items():
        known = {entry["name"] for entry in merged[section]}
        entries = config.get(section)
        for entry in entries if isinstance(entries, list) else []:
            name = entry.get("name") if isinstance(entry, dict) else None
            if isinstance(name, str) and name not in known:
                merged[section].append({**entry, word: _absolute(entry.get(word), path.parent)})
    if not merged.get("current-context"):
        merged["current-context"] = config.get("current-context")


def _absolute(value: Any, base: Path) -> Any:
    if not isinstance(value, dict):
        return value
    paths: dict[str, Any] = {
        k: str((base / value[k]).resolve()) for k in _PATH_KEYS if isinstance(value.get(k), str)
    }
    plugin = value.get("exec")
    if isinstance(plugin, dict):
        command = plugin.get("command")
        if isinstance(command, str) and os.sep in command:
            paths["exec"] = {**plugin, "command": str(base / command)}
    return {**value, **paths}
