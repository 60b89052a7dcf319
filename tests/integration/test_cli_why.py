"""`why` and `queue` show the manager's own numbers, or say why they are missing."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_cli_commands import UserShell, logs_are_not_output
from tests.integration.test_runtime_manager import embedded, make_config
from tests.integration.waiting import condition, until, until_one
from tests.least_privilege import documents

__all__ = ["logs_are_not_output"]

NAMESPACE = "team"
STORIES = f"/apis/fleet.multiqueue.dev/v1alpha1/namespaces/{NAMESPACE}/stories"
FAIR = {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]}
SLICES = {"input": "nvidia.com/mig-1g", "strategy": "Replace", "outputs": {"credits": "3"}}
API = {"apiVersion": "kueue.x-k8s.io/v1beta2"}


def make_cluster_queue(name: str, credits_: int) -> dict[str, Any]:
    quota = {"name": "credits", "nominalQuota": str(credits_)}
    flavor = {"name": "a100", "resources": [quota]}
    spec = {
        "cohortName": "all",
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["credits"], "flavors": [flavor]}],
    }
    return {**API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def make_objects() -> list[dict[str, Any]]:
    """Queue "own" has 6 credits, and may borrow 6 of "lender"."""
    local = {"name": "jobs", "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {**API, "kind": "ResourceFlavor", "metadata": {"name": "a100"}, "spec": {}},
        make_cluster_queue("own", 6),
        make_cluster_queue("lender", 6),
        {**API, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": "own"}},
    ]


def make_mig_job(name: str, slices: int) -> dict[str, Any]:
    amount = {"nvidia.com/mig-1g": str(slices)}
    container = {"name": "c", "image": "i", "resources": {"requests": amount, "limits": amount}}
    labels = {"kueue.x-k8s.io/queue-name": "jobs"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


@asynccontextmanager
async def cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], **options: Any
) -> AsyncIterator[tuple[UserShell, KubeClient, Any]]:
    kubeconfig = tmp_path / "kubeconfig"
    async with embedded(kubeconfig=kubeconfig, **options) as (running, client):
        yield UserShell(kubeconfig, capsys), client, running


@asynccontextmanager
async def full_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[tuple[UserShell, KubeClient, Any]]:
    """9 of 12 credits are used; "waits" and "also" ask for 6 each."""
    manager = make_config(fairSharing=FAIR, resources={"transformations": [SLICES]})
    async with cluster(tmp_path, capsys, manager=manager) as (shell, client, running):
        await apply_all(client, make_objects())
        await client.create(JOBS, make_mig_job("runs", 3))
        await until(client, WORKLOADS, lambda all_: [_has_quota(each) for each in all_] == [True])
        for name in ("waits", "also"):
            await client.create(JOBS, make_mig_job(name, 2))
        await until(client, WORKLOADS, lambda all_: sum(map(_is_refused, all_)) == 2)
        yield shell, client, running


def _has_quota(workload: dict[str, Any]) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "True"


def _is_refused(workload: dict[str, Any]) -> bool:
    return "more needed" in condition(workload, "QuotaReserved").get("message", "")


async def test_the_numbers_are_the_managers_with_fair_sharing_and_transformations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with full_cluster(tmp_path, capsys) as (shell, client, _):
        queue = await until_one(client, CLUSTER_QUEUES, "own", lambda q: _share(q) == 250)
        told = {name: await shell.json("why", name, "-n", NAMESPACE) for name in ("waits", "also")}
        rows = await shell.json("queue", "jobs", "-n", NAMESPACE)
        text = await shell.run("why", "waits", "-n", NAMESPACE)

    (used,) = queue["status"]["flavorsReservation"][0]["resources"]
    want = {"flavor": "a100", "resource": "credits", "asked": "6", "nominal": "6"}
    want |= {"used": used["total"], "free": "0", "borrowable": "3", "verdict": "3 more needed"}
    assert used["total"] == "9"
    for why in told.values():
        (reserved,) = [c for c in why["conditions"] if c["type"] == "QuotaReserved"]
        assert why["flavors"] == [want]
        assert "credits in flavor a100, 3 more needed" in reserved["message"]
        assert "3 more needed" in why["why"]
        assert why["share"] == (
            "ClusterQueue own has a weighted share of 250 (others: lender 0); less goes first"
        )
        assert (why["waiting"], why["problem"]) == (2, None)
    places = {row["workload"]: row["position"] for row in rows if row["position"]}
    assert places == {why["workload"]: why["position"] for why in told.values()}
    assert sorted(places.values()) == [1, 2]
    assert "Note:" not in text


async def test_the_story_of_a_job_is_written_as_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with full_cluster(tmp_path, capsys) as (shell, client, _):
        [name] = [w for w in (await client.list(WORKLOADS)).items if _has_quota(w)]
        file = tmp_path / "runs.json"
        said = await shell.run("why", "runs", "-n", NAMESPACE, "--trace", str(file))
        await shell.run("why", "runs", "-n", NAMESPACE, "--trace", str(file), "-o", "json", code=2)
        story = await client.request("GET", f"{STORIES}/{name['metadata']['name']}")
    spans = json.loads(story.body)["status"]["spans"]
    events = [e for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X"]
    assert [event["name"] for event in events] == [span["stage"] for span in spans]
    assert events[0]["ts"] == parse_time(spans[0]["from"]).timestamp() * 1e6
    assert "open it in https://ui.perfetto.dev" in said


def _share(queue: dict[str, Any]) -> int | None:
    share: int | None = queue.get("status", {}).get("fairSharing", {}).get("weightedShare")
    return share


async def test_who_has_no_right_to_ask_is_told_so_and_sees_what_the_objects_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with full_cluster(tmp_path, capsys) as (admin, client, running):
        await apply_all(client, documents("rbac/kind_roles.yaml"))
        await let(client, "kueue-workload-viewer-role", "kueue-localqueue-viewer-role")
        user = UserShell(await kubeconfig_of_user(client, running, tmp_path), capsys)
        why = await user.json("why", "waits", "-n", NAMESPACE)
        assert why["problem"].startswith("you may not ask the manager: ")
        assert why["problem"].endswith("; positions and numbers are missing")
        assert (why["position"], why["flavors"]) == (None, [])
        assert "3 more needed" in why["why"], "as is written on the Workload"
        assert "Note: you may not ask the manager" in await user.run(
            "why", "waits", "-n", NAMESPACE
        )
        rows = await user.json("queue", "jobs", "-n", NAMESPACE)
        assert {row["position"] for row in rows} == {None}
        assert "note: you may not ask the manager" in user.errors

        await let(client, "kueue-pending-workloads-lq-viewer-role")
        why = await user.json("why", "waits", "-n", NAMESPACE)
        assert why["position"] in {1, 2}
        assert why["problem"].endswith("; numbers are missing")

        await let(client, "kueue-remote-explanation-viewer-role")
        why, whole = [await each.json("why", "waits", "-n", NAMESPACE) for each in (user, admin)]
        assert (why["problem"], why["flavors"]) == (None, whole["flavors"])


async def let(client: KubeClient, *roles: str) -> None:
    """Give the user roles in the namespace."""
    group = "rbac.authorization.k8s.io"
    await apply_all(
        client,
        [
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": role, "namespace": NAMESPACE},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "user", "namespace": NAMESPACE}],
            }
            for role in roles
        ],
    )


async def kubeconfig_of_user(client: KubeClient, running: Any, folder: Path) -> Path:
    account = {"name": "user", "namespace": NAMESPACE}
    await apply_all(client, [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}])
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/user/token"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.request("POST", path, body=review)
    config = yaml.safe_load(yaml.safe_dump(running.kubeconfig))
    config["users"][0]["user"] = {"token": yaml.safe_load(answer.body)["status"]["token"]}
    found = folder / "user.kubeconfig"
    found.write_text(yaml.safe_dump(config))
    return found


async def test_without_a_manager_the_objects_are_shown_and_the_note_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = {
        **API,
        "kind": "Workload",
        "metadata": {"name": "waits", "namespace": NAMESPACE},
        "spec": {"queueName": "jobs", "podSets": make_pod_sets()},
    }
    async with cluster(tmp_path, capsys) as (shell, client, _):
        await apply_all(client, [*make_objects(), workload])
        text = await shell.run("why", "waits", "-n", NAMESPACE)
        rows = await shell.run("queue", "jobs", "-n", NAMESPACE)
        noted = shell.errors
        (summary,) = await shell.json("queue", "-n", NAMESPACE)
    note = "no manager answers which Workloads wait: none runs, or it runs without the gate"
    assert f"Note: {note} VisibilityOnDemand" in text
    assert "Queue:  jobs -> own in cohort all" in text
    assert f"note: {note}" in noted
    assert "team/waits" in rows
    assert (summary["active"], summary["why"]) == (False, "no manager has looked at it yet")


SLOW = (
    "aiohttp.web",
    "kubernetes_asyncio",
    "multiqueue.api.config",
    "multiqueue.capacity.filters",
    "multiqueue.controllers",
    "multiqueue.engine",
    "multiqueue.observability",
    "multiqueue.runtime",
    "multiqueue.embedded.cluster",
    "prometheus_client",
    "rich",
    "structlog",
    "tenacity",
)
"""What takes long to import, and `why` does without."""
PROBE = f"""
import gc, sys
from multiqueue.cli.program import main

collections = []
gc.callbacks.append(lambda phase, _: collections.append(phase))
kubeconfig = sys.argv.pop()
sys.argv[1:] = ["why", "--help"]
main()
print("aiohttp" in sys.modules, file=sys.stderr)
sys.argv[1:] = ["why", "waits", "-n", "{NAMESPACE}", "--kubeconfig", kubeconfig]
main()
print([name for name in {SLOW!r} if name in sys.modules], file=sys.stderr)
print(collections, file=sys.stderr)
"""


async def test_why_starts_without_what_it_does_not_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither its help nor an answer; the token of the kubeconfig is in a file.

    Nor does it look for garbage, which took as long as a third of it.
    """
    async with full_cluster(tmp_path, capsys) as (_, _, running):
        path, token = tmp_path / "files.kubeconfig", tmp_path / "token"
        config = yaml.safe_load(yaml.safe_dump(running.kubeconfig))
        token.write_text(config["users"][0]["user"].pop("token"))
        config["users"][0]["user"]["tokenFile"] = str(token)
        path.write_text(yaml.safe_dump(config))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROBE, str(path)), stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
    assert "3 more needed" in out.decode()
    assert err.decode().splitlines() == ["False", "[]", "[]"]


def make_pod_sets() -> list[dict[str, Any]]:
    template = make_mig_job("any", 1)["spec"]["template"]
    return [{"name": "main", "count": 1, "template": template}]


async def test_a_waiting_job_is_told_when_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """9 of 12 credits are used for an hour, so that 6 are free only after it."""
    manager = make_config(resources={"transformations": [SLICES]})
    async with cluster(tmp_path, capsys, manager=manager) as (shell, client, _):
        await apply_all(client, make_objects())
        runs = make_mig_job("runs", 3)
        runs["metadata"]["annotations"] = {"multiqueue.dev/runtime": "60m"}
        await client.create(JOBS, runs)
        await until(client, WORKLOADS, lambda all_: [_has_quota(each) for each in all_] == [True])
        await client.create(JOBS, make_mig_job("waits", 2))
        await until(client, WORKLOADS, lambda all_: sum(map(_is_refused, all_)) == 1)
        told = (await shell.json("eta", "waits", "-n", NAMESPACE))["start"]
        words = await shell.run("eta", "waits", "-n", NAMESPACE)
        why = await shell.run("why", "waits", "-n", NAMESPACE)
        running = await shell.run("eta", "runs", "-n", NAMESPACE)
        (held,) = [each for each in await _workloads(client) if _has_quota(each)]
        await client.delete(JOBS, "runs", namespace=NAMESPACE)
        await until(client, WORKLOADS, lambda all_: all(map(_has_quota, all_)))
        checked = await shell.json("eta", "--calibration")
        table = await shell.run("eta", "--calibration")

    since = datetime.fromisoformat(condition(held, "QuotaReserved")["lastTransitionTime"])
    low, middle, high = (
        (datetime.fromisoformat(told[name]) - since).total_seconds() / 60
        for name in ("earliest", "at", "latest")
    )
    assert low < middle < high
    assert 30 < middle < 90, "an hour was declared"
    assert (told["stage"], told["ahead"], told["basis"]) == ("whole", 0, "Assumed")
    assert "Start:  about " in words
    assert "1 of 2 jobs in its cohort never said how long they run" in words
    assert "Start:  about " in why
    assert "none of the estimates of starts, " in words
    assert words.rstrip().endswith("ahead, has been checked yet")
    (judged,) = [row for row in checked if row["judged"]]
    assert (judged["stage"], judged["early"], judged["inside"]) == ("whole", 1, 0)
    assert f"whole   {judged['horizon']:6}   1         100 %" in table
    assert "does not wait for quota" in running


async def _workloads(client: KubeClient) -> list[dict[str, Any]]:
    return [dict(each) for each in (await client.list(WORKLOADS)).items]
