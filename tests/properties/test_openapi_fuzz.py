"""Whatever is sent to the server, it answers: never with a failure of its own, never not at all.

The requests are made from the schemas that the server publishes and then spoiled: values, bytes,
content types, paths, queries and headers. ``FUZZ_EXAMPLES=20000`` runs longer, from a new seed.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from yarl import URL

from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.custom import kind_from_crd
from multiqueue.embedded.server.kinds import Kind
from tests.contract.client import Api
from tests.contract.kueue_objects import SPECS, changed, valid
from tests.contract.kueue_server import open_kueue
from tests.properties import fuzz_values as values
from tests.unit.embedded.server.kind_builders import BUILTIN

pytestmark = pytest.mark.timeout(3600)

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
SECONDS = 10.0
"""Longer than any request may take."""
NAMES = ["a", "b", "c", "d"] * 30 + values.TEXTS
OWN = [kind_from_crd(crd) for crd in load_crds()]
KINDS = [*OWN, *OWN, *BUILTIN]
CALLS_OUT = {
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "customresourcedefinitions",
    "apiservices",
}
"""What makes the server ask others, who are not there: tried, but not kept."""
KEPT_ALIVE = {"namespaces", "clusterrolebindings", "clusterroles"}
PATCHES = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]
BODIES = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
TYPES = [
    *PATCHES,
    *BODIES,
    "text/plain",
    "",
    "a/b; charset",
    "application/json;q=x",
    "*/*",
    "\u00fc",
]
ACCEPTS = [
    "application/json",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v9;g=x",
    "application/vnd.kubernetes.protobuf",
    "text/html, */*;q=0.1",
    ";;,,=",
    "",
    "a",
]
QUERIES = [
    "limit",
    "continue",
    "fieldSelector",
    "labelSelector",
    "resourceVersion",
    "resourceVersionMatch",
    "fieldValidation",
    "dryRun",
    "fieldManager",
    "force",
    "pretty",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "tailLines",
    "previous",
    "container",
]
OTHER_PATHS = [
    "/openapi/v3/apis/x",
    "/openapi/v2",
    "/version/x",
    "/api/v9",
    "/apis/x/y",
    "/healthz/x",
]
QUERY_VALUES = [
    *values.TEXTS,
    *("a=b", "a in (b", "!a", "metadata.name=a", "status.phase!=x", "spec.x==", ",", "a==b==c"),
    *("Strict", "Warn", "All", "Exact", "NotOlderThan", "Foreground", "Orphan"),
    *("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "-5", "3000000000", "1" * 5000),
]


@dataclass(frozen=True)
class Shot:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Range:
    """A server to shoot at, on a loop of its own."""

    runner: asyncio.Runner
    api: Api
    namespace: str

    def fire(self, shot: Shot) -> tuple[int, bytes]:
        """Send a request; the answer's status and (of a watch the beginning of) its body."""
        return self.runner.run(self._fire(shot))

    async def _fire(self, shot: Shot) -> tuple[int, bytes]:
        url = URL(f"{self.api.cluster.url}{shot.path}?{urlencode(shot.query)}", encoded=True)
        async with (
            asyncio.timeout(SECONDS),
            self.api.session.request(
                shot.method,
                url,
                data=shot.body,
                headers={**self.api.cluster.headers, **shot.headers},
                allow_redirects=False,
                skip_auto_headers=("Content-Type",),
            ) as response,
        ):
            streams = {"watch", "follow"} & shot.query.keys() or "/watch/" in shot.path
            if streams and response.status == 200:
                return response.status, b""
            return response.status, await response.read()


@pytest.fixture(scope="module")
def target() -> Iterator[Range]:
    with asyncio.Runner() as runner:
        opened = open_kueue()
        api, namespace = runner.run(opened.__aenter__())
        try:
            yield Range(runner, api, namespace)
        finally:
            runner.run(opened.__aexit__(None, None, None))


def object_of(random: Random, kind: Kind, version_name: str) -> Any:
    """An object of a kind, good or not."""
    if kind.kind in SPECS and random.random() < 0.6:
        version = "v1beta1" if version_name == "v1beta1" else "v1beta2"
        body = valid(kind.kind, version)
    else:
        version = next(each for each in kind.versions if each.name == version_name)
        body = values.sample(random, version.schema)
        body = body if isinstance(body, dict) else {}
        body |= {"apiVersion": kind.api_version(version_name), "kind": kind.kind}
        body["metadata"] = {**(body.get("metadata") or {}), "name": "a"}
        body["metadata"].pop("namespace", None)
        body["metadata"].pop("resourceVersion", None)
    body = changed(body, {"metadata.name": random.choice(NAMES)})
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        body = values.spoil(random, body)
    return body


def patch_of(random: Random, kind: Kind, version: str) -> Any:
    """A patch: a part of an object, or operations."""
    if random.random() < 0.4:
        paths = ["/spec", "/metadata/labels/a", "/spec/0", "", "/", "a", "/metadata/name", "/-"]
        ops = ["add", "remove", "replace", "move", "copy", "test", "jump"]
        return [
            {
                "op": random.choice(ops),
                "path": random.choice(paths),
                "from": random.choice(paths),
                "value": values.nonsense(random),
            }
            for _ in range(random.randint(0, 3))
        ]
    body = object_of(random, kind, version)
    if isinstance(body, dict) and random.random() < 0.5:
        body = {key: each for key, each in body.items() if key in {"spec", "status", "metadata"}}
        body["$patch"] = random.choice(["replace", "delete", "merge", 1, None])
    return body


def path_of(random: Random, kind: Kind, version: str, namespace: str) -> str:
    """A path to a collection, an object or a part of one, now and then a wrong one."""
    root = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    if random.random() < 0.02:
        root += "/watch"
    if kind.namespaced and random.random() < 0.97:
        root += f"/namespaces/{namespace}"
    path = f"{root}/{kind.plural}"
    if random.random() < 0.85:
        path += f"/{quote(random.choice(NAMES), safe=random.choice(['', '/']))}"
        if random.random() < 0.2:
            parts = ["status", "scale", "log", "binding", "eviction", "token", "finalize", "x", ""]
            path += f"/{random.choice(parts)}"
    if random.random() < 0.04:
        wrong = [f"{path}//", path.replace("/", "//", 1), f"/{path}", f"{path}/a/b/c", f"{path}%zz"]
        path = random.choice([*wrong, *OTHER_PATHS])
    return path


def shot_of(random: Random, namespace: str) -> Shot:
    """A request."""
    kind = random.choice(KINDS)
    version = random.choice(kind.served_versions).name
    method = random.choice(["POST", "POST", "POST", "PUT", "PATCH", "PATCH", "GET", "DELETE"])
    path = path_of(random, kind, version, namespace)
    if method == "DELETE" and kind.plural in KEPT_ALIVE:
        method = "GET"
    query = {
        random.choice(QUERIES): random.choice(QUERY_VALUES)
        for _ in range(random.choice([0, 0, 1, 1, 2, 3]))
    }
    if method == "GET" and random.random() < 0.1:
        query |= {random.choice(["watch", "follow"]): "true", "timeoutSeconds": "1"}
    headers = {"Accept": random.choice(ACCEPTS[:4] * 10 + ACCEPTS)}
    body = None
    if method == "POST" and random.random() < 0.95:
        path = path.split(f"/{kind.plural}")[0] + f"/{kind.plural}"
    if method != "GET":
        make = patch_of if method == "PATCH" else object_of
        body = values.encoded(random, make(random, kind, version))
        usual = PATCHES if method == "PATCH" else BODIES[:2]
        headers["Content-Type"] = random.choice([*usual * 6, random.choice(TYPES)])
    if kind.plural in CALLS_OUT:
        query["dryRun"] = "All"
    return Shot(method, path, query, body, headers)


def assert_answered(shot: Shot, status: int, body: bytes) -> None:
    """An answer, and no failure of the server."""
    if status == 504:
        assert b"Too large resource version" in body, (shot, body)
        return
    assert status < 500, (status, body[:1000], shot)
    if status >= 400 and body.startswith(b"{"):
        said = json.loads(body)
        assert (said["kind"], said["code"]) == ("Status", status), (shot, said)
        assert said["message"] or status == 401


@settings(
    max_examples=EXAMPLES or 300,
    deadline=None,
    derandomize=not EXAMPLES,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**64 - 1))
def test_every_request_is_answered(target: Range, seed: int) -> None:
    shot = shot_of(Random(seed), target.namespace)
    assert_answered(shot, *target.fire(shot))


@pytest.mark.parametrize(
    "lines",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nAuthorization\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % each for each in range(300)) + b"\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=lambda each: repr(each[:30]),
)
def test_bytes_that_are_no_request_are_refused(target: Range, lines: bytes) -> None:
    async def say() -> bytes:
        url = URL(target.api.cluster.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(lines)
        writer.write_eof()
        try:
            async with asyncio.timeout(SECONDS):
                return await reader.read(64)
        finally:
            writer.close()

    answer = target.runner.run(say())
    assert not answer.startswith(b"HTTP/1.1 5"), answer
    alive = Shot("GET", "/readyz")
    assert target.fire(alive) == (200, b"ok")


def test_the_server_is_still_what_it_was(target: Range) -> None:
    """After all that: a good object of each kind is taken."""
    for kind in OWN:
        body = json.dumps(changed(valid(kind.kind), {"metadata.name": "still-here"})).encode()
        space = f"/namespaces/{target.namespace}" if kind.namespaced else ""
        path = f"/apis/{kind.group}/{kind.versions[-1].name}{space}/{kind.plural}"
        headers = {"Content-Type": "application/json"}
        status, said = target.fire(Shot("POST", path, {"dryRun": "All"}, body, headers))
        assert status == 201, said
