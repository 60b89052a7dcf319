"""Reports before a manifest is applied what our webhooks, or upstream's, would refuse."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from multiqueue.api.config.gates import Gates
from multiqueue.api.crd import load_crds
from multiqueue.api.names import V1BETA2
from multiqueue.api.validation.access import Object
from multiqueue.api.validation.kinds import RULES
from multiqueue.lint.finding import Severity
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import OURS, OWN, Lookup


@lint_rule(
    "invalid",
    kinds=OURS,
    severity=Severity.ERROR,
    title="an object that will be refused",
    why="The API server answers with this error.",
    at_admission=False,
)
def invalid(obj: Object, lookup: Lookup) -> Iterator[Hit]:
    gates = lookup.config.gates if lookup.config is not None else Gates()
    rules = RULES[obj["kind"]]
    for error in rules.validate_create(rules.default(obj, gates=gates), gates):
        yield Hit(error.path, str(error).removeprefix(f"{error.path}: "), "correct the field")


@lint_rule(
    "refused-upstream",
    kinds=("ClusterQueue", "Cohort"),
    severity=Severity.WARNING,
    title="what upstream Kueue refuses and multiqueue accepts",
    why="The manifest does not work on a worker that runs upstream Kueue.",
    at_admission=False,
)
def refused_upstream(obj: Object, _lookup: Lookup) -> Iterator[Hit]:
    for warning in RULES[obj["kind"]].warn(obj):
        path, _, text = warning.partition(": ")
        if "upstream" in text and not path.endswith(".borrowingLimit"):  # limit-without-cohort
            yield Hit(path, text, "change it if the manifest shall work with upstream Kueue, too")


@lint_rule(
    "unknown-field",
    kinds=(*OURS, *OWN),
    severity=Severity.ERROR,
    title="a field that does not exist",
    why="The API server drops it, silently unless the client asks for strict validation, and the "
    "default holds.",
    at_admission=False,
)
def unknown_field(obj: Object, _: Lookup) -> Iterator[Hit]:
    for path, known in _unknown(obj, _schemas()[obj["kind"]], ""):
        close = difflib.get_close_matches(path.rpartition(".")[2], known, n=1)
        todo = f'did you mean "{close[0]}"?' if close else f"use one of {', '.join(known)}"
        yield Hit(path, "there is no such field", todo)


@lru_cache
def _schemas() -> Mapping[str, Mapping[str, Any]]:
    """Return the schema of each of our kinds, in v1beta2 if upstream has the kind."""
    return {
        crd["spec"]["names"]["kind"]: version["schema"]["openAPIV3Schema"]
        for crd in load_crds()
        for version in crd["spec"]["versions"]
        if f"{crd['spec']['group']}/{version['name']}" in {V1BETA2, *OWN.values()}
    }


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (path, the known fields) for each field that a schema does not know."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _unknown(item, schema.get("items", {}), f"{path}[{i}]")
    fields = schema.get("properties")
    if not isinstance(value, Mapping) or fields is None:
        return
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    for key, child in value.items():
        at = f"{path}.{key}" if path else str(key)
        if key in fields:
            yield from _unknown(child, fields[key], at)
        elif "additionalProperties" not in schema and at not in {"apiVersion", "kind", "metadata"}:
            yield at, list(fields)


LOCAL = (unknown_field, invalid, refused_upstream)
