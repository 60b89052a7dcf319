"""A custom kind of the test's own: definition, path, object."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from tests.contract.client import Api, unique

SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Something to try an API server with.",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What is wanted.",
            "required": ["size"],
            "properties": {
                "size": {
                    "type": "integer",
                    "format": "int32",
                    "minimum": 1,
                    "maximum": 10,
                    "description": "How big.",
                },
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "note": {"type": "string", "maxLength": 5},
                "code": {"type": "string", "pattern": "^[a-z]+$"},
                "share": {
                    "x-kubernetes-int-or-string": True,
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                },
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "parts": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                }
            },
        },
    },
}
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {
        "name": "Active",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Active")].status',
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
]


@dataclass(frozen=True)
class Widgets:
    """Where the kind is served, in one namespace."""

    group: str
    path: str

    def body(self, name: str = "a", **spec: Any) -> dict[str, Any]:
        """A valid object."""
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "Widget",
            "metadata": {"name": name},
            "spec": {"size": 3, **spec},
        }


def definition(group: str) -> dict[str, Any]:
    """The CustomResourceDefinition."""
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wdg"],
        "categories": ["toys"],
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": COLUMNS,
        "schema": {"openAPIV3Schema": SCHEMA},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@contextlib.asynccontextmanager
async def served_widgets(api: Api, namespace: str) -> AsyncIterator[Widgets]:
    """Serve the kind in a group that no other test uses; it goes with the block."""
    group = f"{unique('kinds')}.example.com"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.create(definitions, definition(group))
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    await api.until(path, lambda answer: answer.status == 200)
    yield Widgets(group, path)
    await api.delete(f"{definitions}/widgets.{group}")
