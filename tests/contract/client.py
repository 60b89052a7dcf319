"""A plain HTTP client for contract tests: what is sent and what comes back stays visible."""

import asyncio
import contextlib
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PATIENCE_SECONDS = 45.0
"""For what happens in the background: generous, since a real cluster may be slow."""
TAKES_OVER = "apiserver is shutting down"
"""What a real API server says of a custom resource while its definition changes."""


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    text: str
    headers: Mapping[str, str]
    warnings: list[str] = field(default_factory=list)

    @property
    def body(self) -> Any:
        return json.loads(self.text)


@dataclass
class Cluster:
    """The server under test."""

    url: str
    headers: Mapping[str, str]
    ssl: ssl.SSLContext | None
    embedded: bool


class Watch:
    """Frames of one watch, in their order."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self, seconds: float = PATIENCE_SECONDS) -> tuple[str, Any]:
        """(type, object) of the next frame."""
        line = await asyncio.wait_for(self.response.content.readline(), seconds)
        assert line, "the watch ended"
        frame = json.loads(line)
        return frame["type"], frame["object"]

    async def next_names(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the next frames."""
        frames = [await self.next() for _ in range(count)]
        return [(type_, obj["metadata"].get("name", "")) for type_, obj in frames]

    async def rest(self) -> list[tuple[str, Any]]:
        """All frames until the server ends the watch."""
        lines = (await asyncio.wait_for(self.response.read(), PATIENCE_SECONDS)).splitlines()
        return [(frame["type"], frame["object"]) for frame in map(json.loads, lines)]


class Api:
    """Requests to the server under test."""

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.session = session

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """Send a request and read the answer; a str or bytes body is sent as it is.

        A real API server refuses requests for a short time while it takes over a definition. As
        its answer says when to come again, the request is sent again.
        """
        data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        all_headers = {"Content-Type": content_type} if data is not None else {}
        while True:
            async with self.session.request(
                method,
                self.cluster.url + path,
                data=data,
                params={name: str(value) for name, value in query.items()},
                headers={**self.cluster.headers, **all_headers, **(headers or {})},
                ssl=self.cluster.ssl if self.cluster.ssl is not None else True,
            ) as response:
                text = await response.text()
            if response.status != 503 or TAKES_OVER not in text:
                warnings = response.headers.getall("Warning", [])
                return Answer(response.status, text, response.headers, warnings)
            await asyncio.sleep(float(response.headers["Retry-After"]))

    async def get(self, path: str, **query: Any) -> Any:
        return expect(await self.send("GET", path, **query), 200)

    async def create(self, path: str, body: Any, **query: Any) -> Any:
        return expect(await self.send("POST", path, body, **query), 201)

    async def put(self, path: str, body: Any, **query: Any) -> Any:
        return expect(await self.send("PUT", path, body, **query), 200)

    async def merge(self, path: str, body: Any, **query: Any) -> Any:
        return expect(await self.send("PATCH", path, body, content_type=MERGE, **query), 200)

    async def delete(self, path: str, body: Any = None, **query: Any) -> Any:
        answer = await self.send("DELETE", path, body, **query)
        assert answer.status in {200, 202}, answer
        return answer.body

    async def names(self, path: str, **query: Any) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.get(path, **query))["items"]]

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, headers: Mapping[str, str] | None = None, **query: Any
    ) -> AsyncIterator[Watch]:
        """Open a watch; ends with the block."""
        async with self.session.get(
            self.cluster.url + path,
            params={"watch": "true", **{name: str(value) for name, value in query.items()}},
            headers={**self.cluster.headers, **(headers or {})},
            ssl=self.cluster.ssl if self.cluster.ssl is not None else True,
        ) as response:
            assert response.status == 200, await response.text()
            yield Watch(response)

    async def until_gone(self, path: str) -> None:
        """Wait until an object does not exist any more."""
        await self.until(path, lambda answer: answer.status == 404)

    async def until(self, path: str, holds: Any) -> Answer:
        """Ask again until the answer is as wanted."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not holds(answer := await self.send("GET", path)):
            assert asyncio.get_running_loop().time() < deadline, answer
            await asyncio.sleep(0.02)
        return answer


def expect(answer: Answer, status: int) -> Any:
    """The body of an answer that must have this status."""
    assert answer.status == status, f"{answer.status} {answer.text[:1000]}"
    return answer.body


def unique(prefix: str) -> str:
    """A name that no other run uses."""
    return f"{prefix}-{secrets.token_hex(4)}"


def config_map(name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """The simplest object that there is."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": dict(data or {}),
    }


def job(name: str, **spec: Any) -> dict[str, Any]:
    """A Job that nobody touches: suspended, and managed by a controller that does not exist."""
    container = {"name": "main", "image": "registry.invalid/none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "suspend": True,
            "managedBy": "example.com/nobody",
            "template": template,
            **spec,
        },
    }


def pod(name: str, *, node: str = "", **metadata: Any) -> dict[str, Any]:
    """A Pod; with a node no scheduler touches it."""
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "registry.invalid/none"}],
        "terminationGracePeriodSeconds": 30,
    }
    if node:
        spec["nodeName"] = node
    else:
        spec["schedulerName"] = "nobody"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def owner(obj: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """An owner reference to an object."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        **more,
    }
