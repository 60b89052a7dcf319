"""A cluster in this process whose ports are asked, and requests as its OpenAPI documents describe.

Bodies follow the served schemas, and then some of them get faults. The requests are made here and
not by schemathesis, which would bring ten more packages and does not know what Kubernetes leaves
out of these documents: query parameters of lists, types of patches, quantities, reviews.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from structlog.processors import format_exc_info
from structlog.testing import capture_logs

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import MUTATING_WEBHOOKS
from tests.integration.test_visibility import managed, submit

TIMEOUT_SECONDS = 30
SECONDS = 2.0
"""Of CPU time of this process, which runs server and manager; most requests take milliseconds."""
STREAMS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; ``body`` is empty for streams, which are not read."""

    status: int
    body: bytes
    cpu_seconds: float


@dataclass(slots=True)
class World:
    """The ports of one cluster with a manager, a queue and a job that waits."""

    server: str = ""
    authorization: str = ""
    context: ssl.SSLContext | None = None
    namespace: str = ""
    names: Sequence[str] = ()
    ports: Mapping[str, int] = field(default_factory=dict)
    """Of the manager: metrics and health without TLS, all others with it."""
    logs: Sequence[Mapping[str, Any]] = ()
    _connections: dict[str, http.client.HTTPConnection] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        port: str = "",
    ) -> Reply:
        """Ask the API server, or a port of the manager."""
        headers = {"Content-Type": "application/json", **(headers or {})}
        if not port:
            headers.setdefault("Authorization", self.authorization)
        connection = self._connections.pop(port, None) or self._connect(port)
        began = time.process_time()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):  # closed while it was idle
            connection.close()
            connection = self._connect(port)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
        if answer.headers.get("Content-Type", "").startswith(STREAMS):
            text = b""
            connection.close()
        else:
            text = answer.read()
            self._connections[port] = connection
        return Reply(answer.status, text, time.process_time() - began)

    def read(self, path: str) -> Any:
        """Return a document of the API server."""
        reply = self.ask("GET", path)
        assert reply.status == http.HTTPStatus.OK, reply
        return json.loads(reply.body)

    def close(self) -> None:
        for each in self._connections.values():
            each.close()

    def troubles(self) -> list[Mapping[str, Any]]:
        """What was logged with a traceback."""
        return [each for each in self.logs if "exception" in each]

    def _connect(self, port: str) -> http.client.HTTPConnection:
        if not port:
            to = urlsplit(self.server)
            host, number, context = to.hostname or "", to.port, self.context
        else:
            host, number, context = "127.0.0.1", self.ports[port], _unchecked()
        if port in {"metrics", "health"}:
            return http.client.HTTPConnection(host, number, timeout=TIMEOUT_SECONDS)
        return http.client.HTTPSConnection(host, number, timeout=TIMEOUT_SECONDS, context=context)


def _unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.contextmanager
def served_world() -> Iterator[World]:
    """Run a cluster with a manager in a thread of its own."""
    world, ready, loop = World(), threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def main() -> None:
        dashboard = {"bindAddress": "127.0.0.1:0"}
        async with (
            managed(dashboard=dashboard) as (asker, [manager]),
            KubeClient(asker.credentials) as client,
        ):
            assert manager.visibility is not None
            assert manager.dashboard is not None
            await manager.visibility.registered.wait()
            await manager.dashboard.serving.wait()
            (hooks, *_) = (await client.list(MUTATING_WEBHOOKS)).items
            webhooks = urlsplit(hooks["webhooks"][0]["clientConfig"]["url"]).port
            await submit(asker, client, ("waits", "a"))
            await _fill(world, asker.credentials)
            world.namespace = asker.namespace
            world.names = (asker.namespace, asker.cluster_queue, "a", "any", "waits", "default")
            world.ports = {
                "metrics": manager.metrics_port or 0,
                "health": manager.health_port or 0,
                "visibility": manager.visibility.server.port,
                "webhooks": webhooks or 0,
                "dashboard": manager.dashboard.port,
            }
            ready.set()
            await ended.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(main())
            finally:
                ready.set()

    with capture_logs(processors=[format_exc_info]) as logs:
        world.logs = logs
        thread = threading.Thread(target=run, name="served-world")
        thread.start()
        ready.wait()
        try:
            assert world.ports, logs
            yield world
        finally:
            world.close()
            if thread.is_alive():
                loop.call_soon_threadsafe(ended.set)
            thread.join()


async def _fill(world: World, credentials: Credentials) -> None:
    world.server, world.context = credentials.server, credentials.ssl_context
    world.authorization = await credentials.authorization() or ""


# ------------------------------------------------------------------------- requests
@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path, as a document has it."""

    method: str
    path: str
    schema: Mapping[str, Any] | None = None
    """Of the body."""
    kind: Mapping[str, str] = field(default_factory=dict)


def read_operations(document: Mapping[str, Any]) -> list[Operation]:
    """The operations of an OpenAPI v3 document."""
    found = []
    for path, methods in sorted(document.get("paths", {}).items()):
        for method, operation in sorted(methods.items()):
            if not isinstance(operation, dict):
                continue
            content = operation.get("requestBody", {}).get("content", {})
            schema = next(iter(content.values()), {}).get("schema")
            kind = operation.get("x-kubernetes-group-version-kind", {})
            found.append(Operation(method.upper(), path, schema, kind))
    return found


def fill_path(template: str, world: World, wanted: random.Random) -> str:
    """Replace the parameters of a path, mostly by names of objects that exist."""
    parts = []
    for part in template.split("/"):
        if part == "{namespace}" and wanted.random() < 0.9:
            parts.append(world.namespace)
        elif part.startswith("{"):
            odd = wanted.choice(["A b", "x" * 300, "..", "%00", "-", "nobody", "é"])
            name = wanted.choice(world.names) if wanted.random() < 0.8 else odd
            parts.append(quote(name, safe=""))
        else:
            parts.append(part)
    return "/".join(parts)


QUERY = {
    "limit": ["1", "0", "-1", "9" * 40, "x"],
    "continue": ["", "x", "e30", "e30=", "bnVsbA==", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"],
    "labelSelector": ["a=b", "a in (b,c)", "!a", "a in (", "=", "a==b,", "(" * 300, "a>1"],
    "fieldSelector": ["metadata.name=a", "spec.x=1", "=", "a", "metadata.name!=", "\\"],
    "resourceVersion": ["0", "1", "-1", "x", "9" * 40],
    "resourceVersionMatch": ["Exact", "NotOlderThan", "x"],
    "timeoutSeconds": ["0", "1", "-1", "x", "9" * 40],
    "pretty": ["true", "x"],
    "offset": ["0", "-1", "x", "9" * 40],
    "dryRun": ["All", "x", ""],
    "fieldValidation": ["Strict", "Warn", "Ignore", "x"],
    "fieldManager": ["a", "x" * 300, "\n"],
    "force": ["true", "x"],
    "propagationPolicy": ["Foreground", "Orphan", "x"],
    "gracePeriodSeconds": ["0", "-1", "x", "9" * 40],
    "tailLines": ["1", "-1", "x"],
    "limitBytes": ["1", "0", "x"],
    "sinceSeconds": ["1", "-1", "x"],
    "since": ["x", "1h", "2026-01-01T00:00:00Z", "9" * 40],
    "window": ["1h", "-1s", "x", "9" * 40],
    "cluster": ["x", "*"],
    "workload": ["x", "a/b/c"],
    "verbose": ["", "x"],
}
ACCEPTS = [
    "application/json",
    "application/json",
    "application/json, */*",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/event-stream",
    "x;;=,",
    "*/*",
]
PATCHES = [
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
]


def make_query(wanted: random.Random) -> dict[str, str]:
    """Up to four parameters, of which most are wrong somehow."""
    names = wanted.sample(sorted(QUERY), wanted.choice((0, 0, 1, 2, 4)))
    return {name: wanted.choice(QUERY[name]) for name in names}


def join_query(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


# --------------------------------------------------------------------------- bodies
TEXTS = ["a", "any", "", "A b", "x" * 300, "1Gi", "-1", "0.5", "a.b/c", "é", "True", "main", "1e99"]
WHEN = ["2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "now", "0001-01-01T00:00:00Z"]
NUMBERS = [0, 1, 2, -1, 5, 2**31, 2**63, -(2**63)]
DEPTH = 9


@dataclass(slots=True)
class BodyMaker:
    """Makes values of the schemas of one document."""

    schemas: Mapping[str, Any]
    wanted: random.Random

    def make(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """A value that has the right types, and often values that no rule allows."""
        while reference := schema.get("$ref") or _only_one(schema):
            schema = (
                self.schemas[reference.rsplit("/", 1)[1]]
                if isinstance(reference, str)
                else reference
            )
        choose = self.wanted.choice
        if "enum" in schema:
            return choose([*schema["enum"], "x"])
        if schema.get("x-kubernetes-int-or-string") or "anyOf" in schema or "oneOf" in schema:
            return choose([choose(NUMBERS), choose(TEXTS)])
        match schema.get("type"):
            case "object":
                return self._make_object(schema, depth)
            case "array":
                count = choose((0, 1, 1, 2, 3)) if depth < DEPTH else 0
                return [self.make(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "string":
                return choose(WHEN if schema.get("format") == "date-time" else TEXTS)
            case "integer" | "number":
                return choose(NUMBERS)
            case "boolean":
                return choose((True, False))
        return choose((None, 1, "x", {}, []))

    def _make_object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        required = set(schema.get("required", ()))
        likely = 0.6 / (1 + depth / 4)
        for name, inner in schema.get("properties", {}).items():
            chance = 0.97 if name in required or (depth == 0 and name == "spec") else likely
            if depth < DEPTH and self.wanted.random() < chance:
                made[name] = self.make(inner, depth + 1)
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and depth < DEPTH:
            for _ in range(self.wanted.choice((0, 1, 2))):
                made[self.wanted.choice(TEXTS)] = self.make(more, depth + 1)
        return made


def _only_one(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    inner: list[Mapping[str, Any]] = schema.get("allOf", [])
    return inner[0] if len(inner) == 1 and "type" not in schema else None
