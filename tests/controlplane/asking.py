"""Ask a real control plane what it says to an object, and say which part of the answer counts."""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from multiqueue.lib.quantity import QuantityError, parse_quantity
from tests.controlplane.plane import ADMIN_TOKEN, RealControlPlane

Object = dict[str, Any]
GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
NAMED = re.compile(
    r"(?<![^\s\[])([a-z][\w./\[\]-]*): "
    r"(?=Invalid|Required|Forbidden|Duplicate|Unsupported|Too |Not )"
)
"""A field in the words of a refusal."""
DRY_RUN = "dryRun=All&"
STAMPED = ("controller-uid", "job-name")
"""Ends of the labels that a Job is given by its server."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    body: Object

    @property
    def accepted(self) -> bool:
        """Whether the object would be stored, or is."""
        return self.status < http.client.BAD_REQUEST

    @property
    def fields(self) -> set[str]:
        """The fields that a refusal names, among its causes or, as webhooks may, in its words."""
        causes = (self.body.get("details") or {}).get("causes") or ()
        said = {cause.get("field") for cause in causes} | set(NAMED.findall(self.words))
        return {path for path in said if path and path != "<nil>"}

    @property
    def words(self) -> str:
        """For people: the status and what was wrong."""
        return f"{self.status} {self.body.get('message', '') if not self.accepted else ''}".strip()


@dataclass(slots=True)
class Server:
    """One control plane, asked over one connection."""

    plane: RealControlPlane
    _connection: http.client.HTTPSConnection = field(init=False)

    def __enter__(self) -> Self:
        address = urlsplit(self.plane.url)
        context = ssl.create_default_context(cafile=str(self.plane.folder / "ca.crt"))
        assert address.hostname
        self._connection = http.client.HTTPSConnection(
            address.hostname, address.port, timeout=30, context=context
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def create(self, obj: Object, *, dry_run: bool = True) -> Answer:
        """POST, with strict field validation."""
        query = f"?{DRY_RUN if dry_run else ''}fieldValidation=Strict"
        return self.request("POST", path_of(obj) + query, obj)

    def update(self, obj: Object, subresource: str = "") -> Answer:
        """PUT as a dry run, with strict field validation."""
        path = f"{path_of(obj)}/{obj['metadata']['name']}{subresource}"
        return self.request("PUT", f"{path}?{DRY_RUN}fieldValidation=Strict", obj)

    def get(self, obj: Object, version: str) -> Answer:
        """Read an object of our group in one of its versions."""
        asked = {**obj, "apiVersion": f"{GROUP}/{version}"}
        return self.request("GET", f"{path_of(asked)}/{obj['metadata']['name']}")

    def request(self, method: str, path: str, body: Object | None = None) -> Answer:
        """Send one request, answer what comes back."""
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, headers)
        response = self._connection.getresponse()
        return Answer(response.status, json.loads(response.read()))


def path_of(obj: Object) -> str:
    """Where objects of this kind and namespace are."""
    kind, version = obj["kind"], obj["apiVersion"]
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    plural = plural.replace("topologys", "topologies")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = obj["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def read_documents(path: Path) -> list[Object]:
    """Read the objects of a file."""
    return [obj for obj in yaml.safe_load_all(path.read_text()) if obj]


def in_both_versions(obj: Object) -> list[Object]:
    """Answer the object as it is written and, of our group, with the other version's name."""
    group, _, version = obj["apiVersion"].partition("/")
    if group != GROUP:
        return [obj]
    others = [other for other in VERSIONS if other != version]
    return [obj, *({**obj, "apiVersion": f"{GROUP}/{other}"} for other in others)]


def name_of(obj: Object) -> str:
    """What a case is called."""
    metadata = obj["metadata"]
    version = obj["apiVersion"].rpartition("/")[2]
    return f"{version}/{obj['kind']}/{metadata.get('name') or metadata['generateName']}"


def meaning(value: Any) -> Any:
    """A value in one spelling: numbers and quantities as texts, without what is empty."""
    if isinstance(value, dict):
        found = {key: meaning(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in ({}, None)}
    if isinstance(value, list):
        return [meaning(each) for each in value]
    with contextlib.suppress(QuantityError):
        return str(parse_quantity(value))
    return value


def normal(obj: Object) -> Object:
    """Leave out what a server stamps as it likes."""
    result = copy.deepcopy({key: value for key, value in obj.items() if key != "status"})
    metadata = result["metadata"]
    kept = ("namespace", "labels", "annotations", "finalizers")
    result["metadata"] = {key: metadata[key] for key in kept if metadata.get(key)}
    if obj["kind"] == "Job":
        result["spec"].pop("selector", None)
        template = result["spec"]["template"].get("metadata") or {}
        template.pop("creationTimestamp", None)
        for each in (result["metadata"], template):
            labels = each.pop("labels", None) or {}
            left = {key: labels[key] for key in labels if not key.endswith(STAMPED)}
            if left:
                each["labels"] = left
    return result
