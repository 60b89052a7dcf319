"""Everything that is served answers any request soon, with a reason, and without a traceback."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.answers import JSON, encode, mutate
from tests.fuzz.runs import LONG, SHORT
from tests.fuzz.served import (
    ACCEPTS,
    PATCHES,
    SECONDS,
    BodyMaker,
    Operation,
    Reply,
    World,
    fill_path,
    join_query,
    make_query,
    read_operations,
    served_world,
)

KEPT = ("apis/kueue.x-k8s.io/", "apis/multiqueue.dev/", "apis/batch/")
"""Objects of these groups are really written, so that the manager meets them; others in dry runs:
a definition, a right or another's webhook would change what is tested."""
PATCH_REFUSED = "the server rejected our request due to an error in our request"
"""So API servers begin their words about a JSON patch that does not fit the object: no field."""
SEEDS = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with served_world() as world:
        yield world
        assert world.troubles() == []


@pytest.fixture(scope="module")
def documents(world: World) -> dict[str, Any]:
    """The OpenAPI document of each group version."""
    index = world.read("/openapi/v3")["paths"]
    return {name: world.read(each["serverRelativeURL"]) for name, each in sorted(index.items())}


def check(reply: Reply, what: str) -> None:
    assert reply.status < 500, (what, reply)
    assert b"Traceback" not in reply.body, what
    assert reply.cpu_seconds < SECONDS, (what, reply.cpu_seconds)
    if reply.status == 422:
        status = json.loads(reply.body)
        if status["message"].startswith(PATCH_REFUSED):
            return
        causes = status["details"]["causes"]
        assert causes, (what, reply)
        assert all(cause.get("field") for cause in causes), (what, reply)


def ask_by_document(world: World, documents: dict[str, Any], seed: int, junk: Any) -> None:
    """One request to the API server."""
    wanted = random.Random(seed)
    own = [name for name in documents if name.startswith(KEPT)]
    name = wanted.choice(own) if wanted.random() < 0.75 else wanted.choice(sorted(documents))
    operation = wanted.choice(read_operations(documents[name]))
    query = make_query(wanted)
    if operation.method == "DELETE" or not name.startswith(KEPT):
        query["dryRun"] = "All"
    headers = {"Accept": wanted.choice(ACCEPTS) if wanted.random() < 0.3 else "application/json"}
    body: bytes | None = None
    if operation.method in {"POST", "PUT", "PATCH"}:
        value = make_object(documents[name], operation, world, wanted)
        if operation.method == "PATCH":
            headers["Content-Type"] = wanted.choice(PATCHES)
            if "json-patch" in headers["Content-Type"]:
                value = make_operations(value, wanted)
        for _ in range(wanted.choice((0, 0, 1, 2))):
            value = mutate(value, wanted, junk)
        body = encode(value)
    path = join_query(fill_path(operation.path, world, wanted), query)
    what = f"{operation.method} {path} {headers} {(body or b'')[:2000]!r}"
    check(world.ask(operation.method, path, body, headers), what)


def make_object(
    document: dict[str, Any], operation: Operation, world: World, wanted: random.Random
) -> Any:
    schemas = document["components"]["schemas"]
    kind = operation.kind
    of_kind = [
        schema
        for _, schema in sorted(schemas.items())
        if kind in schema.get("x-kubernetes-group-version-kind", ())
    ]
    schema = operation.schema or (of_kind[0] if of_kind else {"type": "object"})
    value = BodyMaker(schemas, wanted).make(schema)
    if not isinstance(value, dict) or wanted.random() < 0.05:
        return value
    made = value.get("metadata") if isinstance(value.get("metadata"), dict) else {}
    kept = {key: each for key, each in (made or {}).items() if wanted.random() < 0.3}
    metadata = {**kept, "name": wanted.choice([*world.names, f"n{wanted.randrange(9)}"])}
    if "{namespace}" in operation.path:
        metadata["namespace"] = world.namespace
    if wanted.random() < 0.5:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": wanted.choice(["a", "b", "x"])}
    group = f"{kind['group']}/" if kind.get("group") else ""
    version = f"{group}{kind.get('version', 'v1')}"
    return {**value, "apiVersion": version, "kind": kind.get("kind", "x"), "metadata": metadata}


def make_operations(value: Any, wanted: random.Random) -> list[Any]:
    """A JSON patch."""
    paths = ["/spec", "/metadata/labels", "/spec/x/-", "", "/", "/spec/~2", "/metadata/name", "x"]
    verbs = ["add", "replace", "remove", "test", "move", "copy", "x"]
    return [
        {
            "op": wanted.choice(verbs),
            "path": wanted.choice(paths),
            "from": wanted.choice(paths),
            "value": value,
        }
        for _ in range(wanted.choice((0, 1, 3)))
    ]


@SHORT
@given(SEEDS, JSON)
def test_the_api_server_answers_any_request(
    world: World, documents: dict[str, Any], seed: int, junk: Any
) -> None:
    for turn in range(4):
        ask_by_document(world, documents, seed + turn, junk)


@pytest.mark.fuzz
@LONG
@given(SEEDS, JSON)
def test_the_api_server_for_long(
    world: World, documents: dict[str, Any], seed: int, junk: Any
) -> None:
    ask_by_document(world, documents, seed, junk)


# ------------------------------------------------------------- what the manager serves
OURS = ("fleet.multiqueue.dev", "visibility.kueue.x-k8s.io")


@pytest.fixture(scope="module")
def own_paths(world: World) -> list[str]:
    """The paths of the manager's APIs, by their discovery: not all have an OpenAPI document."""
    found = ["/apis"]
    for group in world.read("/apis")["groups"]:
        for version in group["versions"] if group["name"] in OURS else ():
            base = f"/apis/{version['groupVersion']}"
            found.append(base)
            for resource in world.read(base)["resources"]:
                head, *rest = resource["name"].split("/")
                space = "/namespaces/{namespace}" if resource["namespaced"] else ""
                paths = [f"/{head}", f"{space}/{head}", f"{space}/{head}/{{name}}"]
                if rest:
                    paths = [f"{space}/{head}/{{name}}/{'/'.join(rest)}"]
                found += [base + path for path in paths]
    return sorted(set(found))


def ask_own(world: World, own_paths: list[str], seed: int, junk: Any) -> None:
    """One request to the APIs that the manager serves, through the API server or without it."""
    wanted = random.Random(seed)
    path = fill_path(wanted.choice(own_paths), world, wanted)
    method = wanted.choice(
        ["GET"] * 20 + ["POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
    )
    query = make_query(wanted)
    headers = {"Accept": wanted.choice(ACCEPTS)}
    body = encode(junk) if method in {"POST", "PUT", "PATCH"} else None
    port = "visibility" if wanted.random() < 0.2 else ""
    full = join_query(path, query)
    reply = world.ask(method, full, body, headers, port=port)
    check(reply, f"{port} {method} {full} {headers} {body!r}")


@SHORT
@given(SEEDS, JSON)
def test_the_managers_apis_answer_any_request(
    world: World, own_paths: list[str], seed: int, junk: Any
) -> None:
    for turn in range(4):
        ask_own(world, own_paths, seed + turn, junk)


@pytest.mark.fuzz
@LONG
@given(SEEDS, JSON)
def test_the_managers_apis_for_long(
    world: World, own_paths: list[str], seed: int, junk: Any
) -> None:
    ask_own(world, own_paths, seed, junk)


PATHS = {
    "metrics": ["/metrics", "/metrics/", "/", "/debug", "/..", "/metrics?name[]=x", "/%00"],
    "health": ["/healthz", "/readyz", "/readyz/webhooks", "/readyz/x", "/readyz?verbose", "//"],
    "webhooks": [
        "/convert",
        "/mutate-batch-v1-job",
        "/validate-batch-v1-job",
        "/mutate-jobs-without-a-queue",
        "/validate-kinds-that-are-not-queued",
        "/mutate-declared-jobs",
        "/validate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "/validate-kueue-x-k8s-io-v1beta2-workload",
        "/mutate-newer-dev-v1-thing",
        "/readyz",
        "/x",
    ],
}
HEADERS = st.dictionaries(
    st.sampled_from(
        ["Content-Type", "Accept", "Authorization", "X-Remote-User", "Expect", "Range"]
    ),
    st.sampled_from(
        ["application/json", "Bearer x", "Bearer", "Basic eA==", "100-continue", "é", ""]
    ),
    max_size=2,
)


def make_review(path: str, wanted: random.Random, junk: Any) -> Any:
    """A review that was right once."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": junk}
    if path == "/convert":
        request: Any = {"desiredAPIVersion": "kueue.x-k8s.io/v1beta1", "objects": [job, junk]}
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    else:
        request = {"kind": {"kind": "Job", "group": "batch", "version": "v1"}}
        request |= {"operation": "CREATE", "object": job, "oldObject": junk, "namespace": "n"}
        head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    review: Any = {**head, "request": {"uid": "u", **request}}
    for _ in range(wanted.choice((0, 1, 2))):
        review = mutate(review, wanted, junk)
    return review


def ask_port(world: World, headers: dict[str, str], seed: int, junk: Any) -> None:
    """One request to a port that asks for no credentials."""
    wanted = random.Random(seed)
    port = wanted.choice(["metrics", "health", "webhooks", "webhooks", "webhooks"])
    path = wanted.choice(PATHS[port])
    method = "POST" if port == "webhooks" and wanted.random() < 0.9 else "GET"
    body = encode(make_review(path, wanted, junk)) if method == "POST" else None
    encoded = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    if encoded.get("Expect") and encoded["Expect"] != "100-continue":
        del encoded["Expect"]  # 417 is aiohttp's answer
    reply = world.ask(method, path, body, encoded, port=port)
    if port == "health" and reply.status == 500:
        assert b"check failed" in reply.body
        return
    check(reply, f"{port} {method} {path} {headers} {body!r}")
    if reply.status == 200 and method == "POST":
        assert orjson.loads(reply.body)["response"]


COOKIES = st.one_of(
    st.binary(max_size=200).map(lambda raw: base64.urlsafe_b64encode(raw).decode()),
    st.text(max_size=50),
)
TOKENS = st.one_of(JSON, st.sampled_from(["x", "a.W10.b", "a.e30.b", "a.eyJleHAiOjFlOTk5fQ.b"]))


def ask_dashboard(world: World, cookies: list[str], token: Any, seed: int) -> None:
    """One request to the dashboard, as its page sends it, of somebody with odd cookies."""
    wanted = random.Random(seed)
    method = wanted.choice(["GET", "POST", "POST", "PUT", "HEAD"])
    path = wanted.choice(["/", "/login", "/logout", "/about.json", "/usage.csv", "/%2e%2e/", "//"])
    host = f"127.0.0.1:{world.ports['dashboard']}"
    pairs = [f"__Host-multiqueue-{i}={each}" for i, each in enumerate(cookies)]
    headers = {"Origin": f"https://{host}", "Content-Type": "application/json"}
    if pairs:
        headers["Cookie"] = "; ".join(pairs).encode().decode("latin-1")
        headers["Cookie"] = re.sub(r"[\x00-\x1f\x7f]", "", headers["Cookie"])
    body = encode(wanted.choice([token, {"token": token}, {"token": "x", "namespace": token}]))
    reply = world.ask(method, path, body, headers, port="dashboard")
    check(reply, f"dashboard {method} {path} {headers} {body!r}")
    is_page = method == "GET" and path == "/"
    assert (reply.status == 200) == is_page, "nobody has a token here"


@SHORT
@given(st.lists(COOKIES, max_size=3), TOKENS, SEEDS)
def test_the_dashboard_answers_any_request_and_lets_nobody_in(
    world: World, cookies: list[str], token: Any, seed: int
) -> None:
    for turn in range(4):
        ask_dashboard(world, cookies, token, seed + turn)


@pytest.mark.fuzz
@LONG
@given(st.lists(COOKIES, max_size=3), TOKENS, SEEDS)
def test_the_dashboard_for_long(world: World, cookies: list[str], token: Any, seed: int) -> None:
    ask_dashboard(world, cookies, token, seed)


@SHORT
@given(HEADERS, SEEDS, JSON)
def test_ports_without_credentials_answer_any_request(
    world: World, headers: dict[str, str], seed: int, junk: Any
) -> None:
    for turn in range(4):
        ask_port(world, headers, seed + turn, junk)


@pytest.mark.fuzz
@LONG
@given(HEADERS, SEEDS, JSON)
def test_ports_without_credentials_for_long(
    world: World, headers: dict[str, str], seed: int, junk: Any
) -> None:
    ask_port(world, headers, seed, junk)
