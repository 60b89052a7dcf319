"""The same random history of writes on the embedded and on a real API server: after each step both
answer alike, and say the same about who owns which field.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.credentials import Credentials
from tests.contract.client import MERGE, STRATEGIC, Answer, Api, Cluster, config_map
from tests.contract.managed_fields import APPLY
from tests.contract.widgets import Widgets, served_widgets
from tests.controlplane.plane import RealControlPlane

HISTORIES, STEPS = 12, 10
MANAGERS = ("one", "two", "three", "kubectl")
NAMESPACE = "owners"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
TEMPLATES = f"/api/v1/namespaces/{NAMESPACE}/podtemplates"
Body = dict[str, Any]


@contextlib.asynccontextmanager
async def both(plane: RealControlPlane) -> AsyncIterator[tuple[Api, Api]]:
    """Clients of an embedded server and of a real one."""
    credentials = await Credentials.from_kubeconfig_file(plane.kubeconfig)
    async with (
        ApiServer(ServerOptions(tls=False)) as server,
        aiohttp.ClientSession(read_bufsize=2**22) as session,
    ):
        token = server.kubeconfig()["users"][0]["user"]["token"]
        embedded = Cluster(server.url, {"Authorization": f"Bearer {token}"}, None, embedded=True)
        headers = {"Authorization": await credentials.authorization() or ""}
        real = Cluster(credentials.server, headers, credentials.ssl_context, embedded=False)
        clients = Api(embedded, session), Api(real, session)
        for api in clients:
            await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield clients


class Writes:
    """Random objects of three kinds, and what is done with them."""

    def __init__(self, seed: int, widgets: Widgets) -> None:
        self.random = random.Random(seed)
        self.name = f"h{seed}"
        self.paths = {
            "ConfigMap": CONFIG_MAPS,
            "PodTemplate": TEMPLATES,
            "Widget": widgets.path,
        }
        self.kind = sorted(self.paths)[seed % 3]
        self._widgets = widgets

    @property
    def path(self) -> str:
        """Of the object."""
        return f"{self.paths[self.kind]}/{self.name}"

    def some(self, **values: Any) -> Body:
        """Some of these fields; of several values one."""
        chosen = [name for name in values if self.random.random() < 0.5]
        return {name: self.random.choice(values[name]) for name in chosen}

    def body(self) -> Body:
        """An object."""
        body = getattr(self, f"_{self.kind.lower()}")()
        labels = self.some(a="12", b="12")
        body["metadata"] = {"name": self.name, **self.some(labels=[labels], annotations=[labels])}
        return body

    def _configmap(self) -> Body:
        return config_map(self.name, self.some(x="12", y="12", z="12"))

    def _widget(self) -> Body:
        names = self.random.sample(["p", "q", "r"], self.random.randrange(4))
        parts = [{"name": name, **self.some(weight=[1, 2])} for name in names]
        spec = self.some(
            color=["red", "green"],
            note="12",
            share=[1, "1%"],
            open=[{}, {"a": 1}, {"a": {"b": 1}}],
            parts=[parts],
        )
        return self._widgets.body(self.name, size=self.random.choice([1, 2]), **spec)

    def _podtemplate(self) -> Body:
        names = self.random.sample(["c", "d"], self.random.choice([1, 2]))
        containers = [{"name": name, "image": "i", **self._container()} for name in names]
        more = self.some(nodeSelector=[self.some(a="12")], terminationGracePeriodSeconds=[1, 2])
        spec = {"containers": containers, **more}
        return {"apiVersion": "v1", "kind": "PodTemplate", "template": {"spec": spec}}

    def _container(self) -> Body:
        variables = self.random.sample(["A", "B"], self.random.randrange(3))
        return self.some(
            env=[[{"name": name, "value": self.random.choice("12")} for name in variables]],
            ports=[[{"containerPort": 80}], [{"containerPort": 80, "protocol": "UDP"}]],
            args=[["1"], ["1", "2"], []],
            resources=[{"requests": {"cpu": "1"}}, {}],
        )

    def step(self) -> tuple[str, str, Any, Body]:
        """Method, content type, body and query of the next write."""
        body, query = self.body(), {"fieldManager": self.random.choice(MANAGERS)}
        kinds = ["apply", "apply", "force", "put", "merge", "strategic", "delete"]
        match self.random.choices(kinds, [4, 4, 5, 3, 3, 0 if self.kind == "Widget" else 3, 1])[0]:
            case "force":
                return "PATCH", APPLY, body, {**query, "force": "true"}
            case "put":
                return "PUT", "application/json", body, query
            case "merge":
                return "PATCH", MERGE, body, query
            case "strategic":
                return "PATCH", STRATEGIC, body, query
            case "delete":
                return "DELETE", "application/json", None, {}
        return "PATCH", APPLY, body, query


def comparable(answer: Answer) -> Any:
    """An object without what each server says in its own way."""
    if answer.status != 200:
        return answer.status
    obj = copy.deepcopy(answer.body)
    for name in ("resourceVersion", "uid", "creationTimestamp"):
        del obj["metadata"][name]
    entries = obj["metadata"].get("managedFields", [])
    for entry in entries:
        entry["time"] = "time" in entry  # whoever changed no value has none
    entries.sort(key=lambda entry: (entry["manager"], entry["operation"]))
    return obj


async def write(api: Api, writes: Writes, step: tuple[str, str, Any, Body]) -> tuple[Any, ...]:
    """Take a step; answers what came of it."""
    method, content_type, body, query = step
    path = writes.path
    if method == "PUT":
        current = await api.send("GET", path)
        if current.status != 200:
            method, path = "POST", writes.paths[writes.kind]
        elif writes.kind == "Widget":
            revision = current.body["metadata"]["resourceVersion"]
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": revision}}
    answer = await api.send(method, path, body, content_type=content_type, **query)
    words = answer.body["message"] if answer.status >= 400 else ""
    return answer.status, words, comparable(await api.send("GET", writes.path))


@pytest.mark.timeout(300)
async def test_random_histories_have_the_same_owners(shared_plane: RealControlPlane) -> None:
    async with both(shared_plane) as (embedded, real), contextlib.AsyncExitStack() as stack:
        kinds = [
            await stack.enter_async_context(served_widgets(api, NAMESPACE))
            for api in (embedded, real)
        ]
        for seed in range(HISTORIES):
            histories = [Writes(seed, widgets) for widgets in kinds]
            for _ in range(STEPS):
                steps = [each.step() for each in histories]
                got = [
                    await write(api, writes, step)
                    for api, writes, step in zip((embedded, real), histories, steps, strict=True)
                ]
                ours, theirs = (
                    json.dumps(each, sort_keys=True).replace(kind.group, "GROUP")
                    for each, kind in zip(got, kinds, strict=True)
                )
                assert json.loads(ours) == json.loads(theirs), (seed, steps[0])
