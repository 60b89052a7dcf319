"""Logs of pods: what a server says before it asks a kubelet, and what ours says in its place."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from multiqueue.embedded.cluster.cluster import SimOptions
from multiqueue.embedded.cluster.nodes import parse_node_pool
from multiqueue.embedded.cluster.pod_logs import read_log
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.runtime.embedded import EmbeddedCluster, EmbeddedOptions
from tests.contract.client import STRATEGIC, Answer, Api, Cluster, expect, pod, unique
from tests.contract.kubectl import KUBECTL, Kubectl

NODE = {"metadata": {"name": "n"}}


async def refusal(api: Api, path: str, **query: Any) -> tuple[int, str]:
    answer = await api.send("GET", path, **query)
    return answer.status, answer.body["message"]


async def test_a_pod_without_a_node_has_no_log_yet(api: Api, pods: str) -> None:
    await api.create(pods, pod("a"))
    answer = await api.send("GET", f"{pods}/a/log")
    assert (answer.status, answer.text) == (204, "")
    assert (await api.send("GET", f"{pods}/a/log", follow="true")).status == 204
    assert await refusal(api, f"{pods}/b/log") == (404, 'pods "b" not found')
    assert (await api.send("POST", f"{pods}/a/log")).status == 405


async def test_the_container_must_be_one_of_the_pod(api: Api, pods: str) -> None:
    body = pod("a")
    await api.create(pods, body)
    body["metadata"]["name"] = "b"
    body["spec"]["containers"].append({"name": "other", "image": "x"})
    body["spec"]["initContainers"] = [{"name": "first", "image": "x"}]
    await api.create(pods, body)
    want = "a container name must be specified for pod b, choose one of: [first main other]"
    assert await refusal(api, f"{pods}/b/log") == (400, want)
    want = "container none is not valid for pod a"
    assert await refusal(api, f"{pods}/a/log", container="none") == (400, want)
    assert (await api.send("GET", f"{pods}/b/log", container="first")).status == 204


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"tailLines": -1}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
    ({"limitBytes": 0}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
    ({"sinceSeconds": -5}, 422, "sinceSeconds: Invalid value: -5: must be greater than 0"),
    ({"stream": "Stdout"}, 422, "stream: Forbidden: may not be specified"),
    (
        {"sinceSeconds": 1, "sinceTime": "2026-01-01T00:00:00Z"},
        422,
        "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
    ),
    ({"tailLines": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ({"tailLines": ""}, 400, 'strconv.ParseInt: parsing "": invalid syntax'),
    ({"limitBytes": 2**63}, 400, "value out of range"),
    ({"sinceTime": "x"}, 400, 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse'),
]


@pytest.mark.parametrize(("query", "status", "want"), WRONG, ids=lambda each: str(each)[:40])
async def test_wrong_options(
    api: Api, pods: str, query: dict[str, Any], status: int, want: str
) -> None:
    await api.create(pods, pod("a"))
    got = await refusal(api, f"{pods}/a/log", **query)
    assert got[0] == status
    assert want in got[1]
    assert status == 400 or got[1].startswith('PodLogOptions "a" is invalid: ')


async def test_a_node_that_is_gone(api: Api, pods: str) -> None:
    await api.create(pods, pod("a", node="gone"))
    assert await refusal(api, f"{pods}/a/log") == (404, 'pods "gone" not found')


async def test_discovery_shows_the_log(api: Api) -> None:
    resources = (await api.get("/api/v1"))["resources"]
    [found] = [each for each in resources if each["name"] == "pods/log"]
    assert found == {
        "name": "pods/log",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get"],
    }


# ------------------------------------------------------------------ in place of a kubelet


@pytest.fixture
async def simulated() -> AsyncIterator[Api]:
    """A server that knows what simulated containers say, with one node."""
    async with (
        ApiServer(ServerOptions(tls=False, pod_log=read_log)) as server,
        aiohttp.ClientSession() as session,
    ):
        token = server.kubeconfig()["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        api = Api(Cluster(server.url, headers, None, embedded=True), session)
        await api.create("/api/v1/nodes", NODE)
        yield api


PODS = "/api/v1/namespaces/default/pods"
T1, T2, T3 = (f"2026-01-01T00:00:0{second}Z" for second in "123")
RUNNING = {"running": {"startedAt": T1}}
FINISHED = {"terminated": {"startedAt": T1, "finishedAt": T2, "exitCode": 3}}
AGAIN = {"running": {"startedAt": T3}}
STARTED = 'simulated container "main" started, image registry.invalid/none\n'
COMMAND = "command: of the image; nothing is executed\n"
ENDED = "finished with exit code 3\n"


async def report(api: Api, state: Any, last: Any = None, phase: str = "Running") -> None:
    """What a kubelet reports of the container of the pod "a"."""
    container = {
        "name": "main",
        "image": "x",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
        "lastState": last or {},
    }
    body = {"status": {"phase": phase, "containerStatuses": [container]}}
    expect(await api.send("PATCH", f"{PODS}/a/status", body, content_type=STRATEGIC), 200)


async def log(api: Api, **query: Any) -> str:
    answer = await api.send("GET", f"{PODS}/a/log", **query)
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"].startswith("text/plain")
    return answer.text


async def test_a_container_that_has_not_started(simulated: Api) -> None:
    await simulated.create(PODS, pod("a", node="n"))
    waits = 'container "main" in pod "a" is waiting to start: '
    assert await refusal(simulated, f"{PODS}/a/log") == (400, f"{waits}ContainerCreating")
    await report(simulated, {"waiting": {"reason": "ImagePullBackOff"}}, phase="Pending")
    assert await refusal(simulated, f"{PODS}/a/log") == (400, f"{waits}ImagePullBackOff")


async def test_lines_of_a_run_and_of_the_one_before(simulated: Api) -> None:
    await simulated.create(PODS, pod("a", node="n"))
    await report(simulated, RUNNING)
    assert await log(simulated) == STARTED + COMMAND
    want = (400, 'previous terminated container "main" in pod "a" not found')
    assert await refusal(simulated, f"{PODS}/a/log", previous="true") == want
    await report(simulated, {"waiting": {"reason": "CrashLoopBackOff"}}, FINISHED)
    assert await log(simulated) == STARTED + COMMAND + ENDED
    await report(simulated, AGAIN, FINISHED)
    assert await log(simulated) == STARTED + COMMAND
    assert await log(simulated, previous="true") == STARTED + COMMAND + ENDED


async def test_options_choose_among_the_lines(simulated: Api) -> None:
    await simulated.create(PODS, pod("a", node="n"))
    await report(simulated, FINISHED, phase="Failed")
    assert await log(simulated, tailLines=1) == ENDED
    assert await log(simulated, tailLines=0) == ""
    assert await log(simulated, limitBytes=9) == STARTED[:9]
    assert await log(simulated, sinceTime=T2) == ENDED
    assert await log(simulated, sinceSeconds=2**62) == STARTED + COMMAND + ENDED
    stamped = await log(simulated, timestamps="true", tailLines=1)
    assert stamped == f"2026-01-01T00:00:02.000000000Z {ENDED}"


async def test_since_seconds_counts_back_from_now(simulated: Api) -> None:
    await simulated.create(PODS, pod("a", node="n"))
    created = (await simulated.get(f"{PODS}/a"))["metadata"]["creationTimestamp"]
    long_ago = datetime.fromisoformat(created) - timedelta(hours=2)
    recent = {"startedAt": f"{long_ago:%Y-%m-%dT%H:%M:%SZ}", "finishedAt": created, "exitCode": 3}
    await report(simulated, {"terminated": recent}, phase="Failed")
    assert await log(simulated, sinceSeconds=3600) == ENDED


async def follow(api: Api, **query: Any) -> tuple[asyncio.Task[Answer], asyncio.Event]:
    """A followed log that is being read, and a sign that it has begun."""
    begun = asyncio.Event()

    async def read() -> Answer:
        async with api.session.get(
            f"{api.cluster.url}{PODS}/a/log",
            params={"follow": "true", **query},
            headers=api.cluster.headers,
        ) as response:
            begun.set()
            return Answer(response.status, await response.text(), response.headers)

    return asyncio.create_task(read()), begun


async def test_follow_until_the_run_ends(simulated: Api) -> None:
    await simulated.create(PODS, pod("a", node="n"))
    await report(simulated, RUNNING)
    reading, begun = await follow(simulated)
    await begun.wait()
    await simulated.merge(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}})
    assert not reading.done()
    await report(simulated, FINISHED, phase="Failed")
    assert (await reading).text == STARTED + COMMAND + ENDED


async def test_follow_ends_with_the_run_that_a_restart_replaced(simulated: Api) -> None:
    await simulated.create(PODS, pod("a", node="n"))
    await report(simulated, RUNNING)
    reading, begun = await follow(simulated, tailLines="1")
    await begun.wait()
    await report(simulated, AGAIN, FINISHED)
    assert (await reading).text == COMMAND + ENDED


async def test_follow_ends_with_the_pod_or_the_limit(simulated: Api) -> None:
    await simulated.create(PODS, pod("a", node="n"))
    await report(simulated, RUNNING)
    limited, _ = await follow(simulated, limitBytes="5")
    assert (await limited).text == STARTED[:5]
    reading, begun = await follow(simulated)
    await begun.wait()
    await simulated.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert (await reading).text == STARTED + COMMAND


# ------------------------------------------------------------------ with kubectl


@pytest.mark.kubectl
@pytest.mark.timeout(120)
@pytest.mark.skipif(KUBECTL is None, reason="no kubectl found; install it to run this test")
async def test_kubectl_logs_of_simulated_jobs(tmp_path: Path) -> None:
    pools = [parse_node_pool("1xcpu")]
    options = EmbeddedOptions(simulation=SimOptions(pools=pools, speed=10))
    cluster = EmbeddedCluster(options)
    running = asyncio.create_task(cluster.run())
    try:
        await cluster.ready.wait()
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(cluster.kubeconfig))
        kubectl = Kubectl(path, "default", tmp_path)
        name = unique("job")
        await kubectl("create", "job", name, "--image=busybox", "--", "echo", "hi")
        text = await kubectl.until("logs", "--follow", f"job/{name}")
        assert text.splitlines() == [
            f'simulated container "{name}" started, image busybox',
            'command: ["echo", "hi"]; nothing is executed',
            "finished with exit code 0",
        ]
        selected = await kubectl("logs", "-l", f"job-name={name}", "--tail=1", "--prefix")
        assert selected.endswith("finished with exit code 0\n")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
