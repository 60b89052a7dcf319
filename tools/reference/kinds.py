"""docs/reference/kinds.md: every field of our kinds and Kueue's, from their definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.crd.definitions import load_crds
from multiqueue.api.markers import (
    DURATION_PATTERN,
    LABEL_KEY_PATTERN,
    LABEL_PATTERN,
    SUBDOMAIN_PATTERN,
)
from tools.reference.markdown import Reference, cell, code, page, table

Schema = Mapping[str, Any]
KUBERNETES = ("apiVersion", "kind", "metadata")
"""Fields that every object has; Kubernetes describes them."""
TEMPLATE = "spec.podSets[].template"
"""Of Workloads: a pod template of Kubernetes."""
LIMITS = (
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
)
FORMS = {
    SUBDOMAIN_PATTERN: "A DNS name.",
    LABEL_PATTERN: "A DNS label.",
    LABEL_KEY_PATTERN: "The key of a label.",
    DURATION_PATTERN: "A duration such as `1h30m`.",
}
"""What a pattern means; another one is shown as it is."""
HEAD = """The fields of all kinds, in the versions that are stored. `[]` means the items of a list
and `{}` the values of a map. `kubectl explain` says the same. All kinds have `apiVersion`, `kind`
and `metadata`, which Kubernetes describes, as it does the fields of a pod template. Rules are
expressions that must hold for the field or object that they are beside. Upstream's kinds are also
served as `kueue.x-k8s.io/v1beta1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a kind, by its path in the object."""

    path: str
    schema: Schema
    required: bool

    @property
    def text(self) -> str:
        """What the field is for: its own text, or that of its items."""
        items = self.schema.get("items") or {}
        return str(self.schema.get("description") or items.get("description") or "")


def build() -> Reference:
    """Return the page."""
    definitions = load_crds()
    parts = [_section(definition) for definition in definitions]
    missing = [
        f"{definition['spec']['names']['kind']}.{field.path}"
        for definition in definitions
        for field in _fields(_stored(definition)["schema"]["openAPIV3Schema"], "")
        if not field.text
    ]
    return Reference(
        name="kinds.md",
        text=page("Kinds", "`multiqueue/api/v1beta2` and `v1alpha1`", HEAD, *parts),
        undescribed=tuple(missing),
    )


def list_most_items(definition: Schema) -> Iterator[tuple[str, int]]:
    """Yield the lists and maps of a kind's spec that have a limit, with that limit."""
    for field in _fields(_stored(definition)["schema"]["openAPIV3Schema"], ""):
        most = field.schema.get("maxItems", field.schema.get("maxProperties"))
        if most is not None and not field.path.startswith("status."):
            yield field.path, most


def _stored(definition: Schema) -> Schema:
    return next(each for each in definition["spec"]["versions"] if each["storage"])


def _section(definition: Schema) -> str:
    spec = definition["spec"]
    version = _stored(definition)
    schema = version["schema"]["openAPIV3Schema"]
    names = ", ".join(map(code, [spec["names"]["plural"], *spec["names"].get("shortNames", [])]))
    facts = f"`{spec['group']}/{version['name']}`, {spec['scope'].lower()}: {names}."
    rows = [
        [
            code(field.path),
            _type(field.schema),
            "required" if field.required else _default(field.schema),
            _what(field),
        ]
        for field in _fields(schema, "")
    ]
    parts = [f"## {spec['names']['kind']}", schema.get("description", ""), facts]
    parts += [f"Rule: {each['message']}." for each in schema.get("x-kubernetes-validations", ())]
    return "\n\n".join([*parts, table(["field", "type", "default", "what it does"], rows)])


def _fields(schema: Schema, prefix: str) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, inner in (schema.get("properties") or {}).items():
        path = f"{prefix}{name}"
        if path in KUBERNETES:
            continue
        yield Field(path=path, schema=inner, required=name in required)
        if path != TEMPLATE:
            yield from _fields(inner, f"{path}.")
            yield from _fields(inner.get("items") or {}, f"{path}[].")
            more = inner.get("additionalProperties")
            yield from _fields(more if isinstance(more, dict) else {}, f"{path}{{}}.")


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in schema else "integer or string"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _default(schema: Schema) -> str:
    return code(json.dumps(schema["default"])) if "default" in schema else ""


def _what(field: Field) -> str:
    schema = field.schema
    facts = [cell(field.text)]
    if "enum" in schema:
        facts.append("One of " + ", ".join(f"`{each}`" for each in schema["enum"]) + ".")
    if not schema.get("x-kubernetes-int-or-string"):
        facts += [f"{name}: `{schema[name]}`." for name in LIMITS if name in schema]
        pattern = schema.get("pattern", "")
        facts.append(FORMS.get(pattern, pattern and f"Pattern: `{pattern}`."))
    if schema.get("x-kubernetes-list-map-keys"):
        facts.append(f"Unique by {', '.join(map(code, schema['x-kubernetes-list-map-keys']))}.")
    facts += [f"Rule: {each['message']}." for each in schema.get("x-kubernetes-validations", ())]
    return " ".join(filter(None, facts))
