"""A custom kind with two versions that a webhook of the test converts: v1 is stored, v2 is not."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from tests.contract.client import Api, unique
from tests.contract.webhook_server import WebhookServer, serve_webhook

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMES = {"v1": "size", "v2": "extent"}
"""How each version calls the one field of the spec."""


@dataclass
class Gadgets:
    """Where the kind is served, and who converts."""

    group: str
    namespace: str
    hooks: WebhookServer
    api: Api

    def path(self, version: str) -> str:
        """The collection, in a version."""
        return f"/apis/{self.group}/{version}/namespaces/{self.namespace}/gadgets"

    def body(self, version: str, name: str = "a", value: int = 1) -> dict[str, Any]:
        """A valid object."""
        return {
            "apiVersion": f"{self.group}/{version}",
            "kind": "Gadget",
            "metadata": {"name": name},
            "spec": {NAMES[version]: value},
        }

    def answer_with(self, change: Callable[[list[dict[str, Any]]], Any]) -> None:
        """Convert, then let the test change the converted objects or give the response."""

        def answer(request: dict[str, Any]) -> dict[str, Any]:
            objects = [converted(each, request["desiredAPIVersion"]) for each in request["objects"]]
            changed = change(objects)
            if isinstance(changed, dict):
                return changed
            return {"convertedObjects": objects, "result": {"status": "Success"}}

        self.hooks.answers["/convert"] = answer

    async def define(self, *, stored: str = "v1") -> None:
        """Create or replace the definition."""
        path = f"{DEFINITIONS}/gadgets.{self.group}"
        wanted = definition(self.group, self.hooks, stored=stored)
        found = await self.api.send("GET", path)
        if found.status == 404:
            await self.api.create(DEFINITIONS, wanted)
        else:
            wanted["metadata"]["resourceVersion"] = found.body["metadata"]["resourceVersion"]
            await self.api.put(path, wanted)
        for version in NAMES:
            await self.api.until(self.path(version), lambda answer: answer.status == 200)


def converted(obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    """What the webhook makes of an object."""
    given, wanted = (name.rpartition("/")[2] for name in (obj["apiVersion"], api_version))
    spec = {**obj["spec"]}
    spec[NAMES[wanted]] = spec.pop(NAMES[given])
    return {**obj, "apiVersion": api_version, "metadata": {**obj["metadata"]}, "spec": spec}


def definition(group: str, hooks: WebhookServer, *, stored: str) -> dict[str, Any]:
    """The CustomResourceDefinition."""
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    webhook = {"clientConfig": hooks.client_config("/convert"), "conversionReviewVersions": ["v1"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [_version(name, stored=name == stored) for name in NAMES],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def _version(name: str, *, stored: bool) -> dict[str, Any]:
    value = {"type": "integer", "maximum": 100}
    spec = {"type": "object", "properties": {NAMES[name]: value, "note": {"type": "string"}}}
    status = {"type": "object", "properties": {"seen": {"type": "integer"}}}
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Value", "type": "integer", "jsonPath": f".spec.{NAMES[name]}"}
        ],
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}
        },
    }


@contextlib.asynccontextmanager
async def served_gadgets(api: Api, namespace: str) -> AsyncIterator[Gadgets]:
    """Serve the kind in a group that no other test uses, and its webhook."""
    async with serve_webhook() as hooks:
        gadgets = Gadgets(f"{unique('kinds')}.example.com", namespace, hooks, api)
        gadgets.answer_with(lambda _objects: None)
        await gadgets.define()
        hooks.requests.clear()
        yield gadgets
        gadgets.answer_with(lambda _objects: None)
        await api.delete(f"{DEFINITIONS}/gadgets.{gadgets.group}")
