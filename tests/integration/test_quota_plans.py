"""QuotaPlans through the API: measured, proposed, agreed to, applied; on a virtual clock."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import PlanDemand, QuotaPlan, QuotaPlanStatus
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.controllers.quota_plan.controller import FIELD_MANAGER
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient, PatchType
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import admitted, complete, running, submit
from tests.integration.test_cli_commands import UserShell, logs_are_not_output
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import loop_clock, virtual_time

__all__ = ["logs_are_not_output"]

HOUR = 3600.0
SIZES = {"vision": "10", "speech": "10"}


def make_plan(name: str = "plan", **spec: Any) -> dict[str, Any]:
    """A plan that needs an hour of samples."""
    return {
        "apiVersion": "multiqueue.dev/v1alpha1",
        "kind": "QuotaPlan",
        "metadata": {"name": name},
        "spec": {
            "cohort": "teams",
            "resources": [{"flavor": "default", "resource": "cpu"}],
            "every": "24h",
            "history": {"halfLife": "24h", "least": "1h", "credit": "0s"},
            "maxChange": {"percent": 20},
            **spec,
        },
    }


@asynccontextmanager
async def two_teams() -> AsyncIterator[QueueCluster]:
    """Two queues of ten CPUs in a Cohort that lend to each other; no manager."""
    async with queue_cluster() as cluster:
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        for name, cpu in SIZES.items():
            queue = make_cluster_queue(name, cpu=cpu, cohortName="teams")
            await cluster.create(resources.CLUSTER_QUEUES, queue)
            await cluster.create(resources.LOCAL_QUEUES, make_local_queue(name, cluster_queue=name))
        yield cluster


@asynccontextmanager
async def measured_teams(**spec: Any) -> AsyncIterator[QueueCluster]:
    """The same with a plan that knows enough."""
    async with two_teams() as cluster:
        await measure(cluster, **spec)
        yield cluster


async def start(cluster: QueueCluster, name: str, *, queue: str, cpu: int) -> None:
    await submit(cluster, make_job(name, queue=queue, cpu=str(cpu)))
    await cluster.changes.until(lambda: running(cluster, name), f"{name} runs")
    ready = {"status": {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}}
    await cluster.patch(resources.JOBS, name, ready, namespace=NAMESPACE, subresource="status")


async def read_plan(cluster: QueueCluster, name: str = "plan") -> QuotaPlan:
    return decode(QuotaPlan, await cluster.client.get(resources.QUOTA_PLANS, name))


async def until_state(
    cluster: QueueCluster, state: str, *, name: str = "plan", hours: float = 30
) -> QuotaPlanStatus:
    for _ in range(int(hours * 60)):
        status = (await read_plan(cluster, name)).status
        if status.state == state:
            return status
        await asyncio.sleep(60)
    raise AssertionError(f"{name} is {status.state}, not {state}: {status.message}")


async def approve(cluster: QueueCluster, hash_: str) -> None:
    await cluster.client.patch(resources.QUOTA_PLANS, "plan", {"spec": {"approved": hash_}})


async def quotas(cluster: QueueCluster) -> dict[str, str]:
    listed = await cluster.client.list(resources.CLUSTER_QUEUES)
    return {each["metadata"]["name"]: nominal_of(each) for each in listed.items}


def nominal_of(queue: dict[str, Any]) -> str:
    return str(queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])


async def measure(cluster: QueueCluster, **spec: Any) -> None:
    """Make a plan that a manager has measured: one team used 14 CPUs, and the other one 4."""
    now = loop_clock().now()
    since = format_time(now - timedelta(hours=4))
    used = {"vision": "14000:48000", "speech": "4000:48000"}  # milli, thousandths of samples
    rows = [
        {"clusterQueue": q, "flavor": "default", "resource": "cpu", "since": since, "histogram": h}
        for q, h in used.items()
    ]
    await cluster.create(resources.QUOTA_PLANS, make_plan(**spec))
    status = {"sampledUntil": format_time(now), "demand": rows}
    await cluster.client.patch(
        resources.QUOTA_PLANS, "plan", {"status": status}, subresource="status"
    )


async def until_proposed(cluster: QueueCluster) -> str:
    """Return the hash of the proposal."""
    status = await until_state(cluster, "Proposed")
    assert status.proposal is not None
    return status.proposal.hash


@virtual_time
async def test_quota_follows_a_team_that_grows_and_nobody_is_stopped() -> None:
    async with two_teams() as cluster:
        async with cluster.manager():
            await start(cluster, "v1", queue="vision", cpu=10)
            await start(cluster, "v2", queue="vision", cpu=4)
            await start(cluster, "s1", queue="speech", cpu=4)
        await measure(cluster)
        async with cluster.manager():
            await agree_while_they_run(cluster)


async def agree_while_they_run(cluster: QueueCluster) -> None:
    hash_ = await until_proposed(cluster)
    status = (await read_plan(cluster)).status
    assert status.proposal is not None
    down, up = status.proposal.moves
    assert (up.cluster_queue, up.before, up.after, up.p80) == ("vision", "10", "12", "14")
    assert (down.cluster_queue, down.before, down.after) == ("speech", "10", "8")
    assert (up.unmet_before, up.unmet_after, up.borrows) == ("1344", "672", "2")
    assert await quotas(cluster) == SIZES
    await approve(cluster, hash_)
    status = await until_state(cluster, "Applied")
    assert await quotas(cluster) == {"vision": "12", "speech": "8"}
    assert [state.number for state in status.states] == [0, 1]
    await asyncio.sleep(600)
    assert all(admitted(cluster, job) for job in ("v1", "v2", "s1"))


@virtual_time
async def test_a_plan_changes_quotas_by_itself_and_takes_a_change_back_that_did_harm() -> None:
    """P-110 and P-111; not while a queue is stopped."""
    async with measured_teams(mode="Automatic", every="1h") as cluster, cluster.manager():
        for number in range(10):
            await submit(cluster, make_job(f"early-{number}", queue="speech", cpu="100m"))
        await stop_queue(cluster, "vision", "Hold")
        await asyncio.sleep(3 * HOUR)
        status = (await read_plan(cluster)).status
        assert status.state == "Proposed"
        assert 'not while ClusterQueue "vision" has spec.stopPolicy Hold' in status.message
        await stop_queue(cluster, "vision", "None")
        status = await until_state(cluster, "Applied", hours=0.2)
        assert await quotas(cluster) == {"vision": "12", "speech": "8"}
        assert [state.by for state in status.states] == ["", "mode Automatic"]
        for number in range(12):
            await submit(cluster, make_job(f"late-{number}", queue="speech", cpu="30"))
        status = await until_state(cluster, "Returned", hours=1)
        assert 'Workloads of ClusterQueue "speech" waited up to' in status.message
        for reason in ("QuotaPlanApplied", "QuotaPlanReturned"):
            await cluster.until_event("QuotaPlan", "plan", reason)
        assert await quotas(cluster) == SIZES
        await asyncio.sleep(5 * HOUR)
        assert await quotas(cluster) == SIZES


@virtual_time
async def test_workloads_of_a_local_queue_that_is_held_are_no_harm() -> None:
    async with measured_teams(mode="Automatic", every="1h") as cluster, cluster.manager():
        for number in range(10):
            await submit(cluster, make_job(f"early-{number}", queue="speech", cpu="100m"))
        await until_state(cluster, "Applied", hours=4)
        held = {"spec": {"stopPolicy": "Hold"}}
        await cluster.client.patch(resources.LOCAL_QUEUES, "speech", held, namespace=NAMESPACE)
        for number in range(12):
            await submit(cluster, make_job(f"late-{number}", queue="speech", cpu="30"))
        await asyncio.sleep(2 * HOUR)
        assert await quotas(cluster) == {"vision": "12", "speech": "8"}


@virtual_time
async def test_nothing_changes_by_itself_while_a_worker_is_lost() -> None:
    check = {
        "apiVersion": names.V1BETA2,
        "kind": "AdmissionCheck",
        "metadata": {"name": "fleet"},
        "spec": {
            "controllerName": names.MULTIKUEUE_CONTROLLER,
            "parameters": {"apiGroup": names.GROUP, "kind": "MultiKueueConfig", "name": "fleet"},
        },
    }
    fleet = {
        "apiVersion": names.V1BETA2,
        "kind": "MultiKueueConfig",
        "metadata": {"name": "fleet"},
        "spec": {"clusters": ["gone"]},
    }
    async with measured_teams(mode="Automatic", every="1h") as cluster, cluster.manager():
        await cluster.create(resources.MULTIKUEUE_CONFIGS, fleet)
        await cluster.create(resources.ADMISSION_CHECKS, check)
        rules = {"admissionChecks": [{"name": "fleet"}]}
        lost = {"spec": {"admissionChecksStrategy": rules}}
        await cluster.client.patch(resources.CLUSTER_QUEUES, "speech", lost)
        await asyncio.sleep(4 * HOUR)
        status = (await read_plan(cluster)).status
        assert 'not while AdmissionCheck "fleet" says: No cluster can be used' in status.message
        assert await quotas(cluster) == SIZES
        found = {"spec": {"admissionChecksStrategy": None}}
        await cluster.client.patch(resources.CLUSTER_QUEUES, "speech", found)
        await until_state(cluster, "Applied", hours=0.2)


async def stop_queue(cluster: QueueCluster, name: str, policy: str) -> None:
    await cluster.client.patch(resources.CLUSTER_QUEUES, name, {"spec": {"stopPolicy": policy}})


@virtual_time
async def test_a_proposal_that_changed_is_not_applied() -> None:
    async with measured_teams() as cluster, cluster.manager():
        hash_ = await until_proposed(cluster)
        await cluster.client.patch(
            resources.QUOTA_PLANS, "plan", {"spec": {"maxChange": {"percent": 10}}}
        )
        await approve(cluster, hash_)
        await asyncio.sleep(60)
        status = (await read_plan(cluster)).status
        assert status.proposal is not None
        assert status.proposal.hash != hash_
        assert status.message == (
            f"spec.approved is {hash_}, which is not the proposal; nothing is applied. The "
            f"proposal is {status.proposal.hash}; look at it, and to agree: multiqueue quota "
            "approve plan"
        )
        assert await quotas(cluster) == SIZES
        await cluster.client.patch(resources.QUOTA_PLANS, "plan", {"spec": {"deadbandPercent": 90}})
        await asyncio.sleep(60)
        assert (await read_plan(cluster)).status.message == (
            f"no quota has to change by 90 % or more; spec.approved is {hash_}, and nothing is "
            "proposed now; nothing is applied"
        )


@virtual_time
async def test_a_manager_that_dies_between_two_writes_is_followed_by_one_that_goes_on() -> None:
    """After each write; and no sum is ever above what it was (P-103)."""
    async with measured_teams() as cluster:
        async with cluster.manager():
            hash_ = await until_proposed(cluster)
        sums = []
        for _ in range(4):
            async with cluster.manager(client_type=dies_after(1)):
                await approve(cluster, hash_)
                await asyncio.sleep(60)
            now = await quotas(cluster)
            sums.append(sum(map(int, now.values())))
        status = await until_state(cluster, "Applied", hours=0.1)
        assert sums == [20, 18, 20, 20]
        assert await quotas(cluster) == {"vision": "12", "speech": "8"}
        assert len(status.states) == 2


@virtual_time
async def test_quotas_that_somebody_applies_from_a_repository_are_left_alone() -> None:
    async with measured_teams() as cluster, cluster.manager():
        hash_ = await until_proposed(cluster)
        await cluster.client.patch(
            resources.CLUSTER_QUEUES,
            "speech",
            make_cluster_queue("speech", cpu="10", cohortName="teams"),
            patch_type=PatchType.APPLY,
            field_manager="kustomize-controller",
        )
        await approve(cluster, hash_)
        status = await until_state(cluster, "NotOurs")
        assert status.proposal is not None
        assert 'field manager "kustomize-controller" owns spec.resourceGroups' in status.message
        assert await quotas(cluster) == SIZES


def test_the_commands_show_agree_and_go_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @virtual_time
    async def run() -> None:
        async with measured_teams() as cluster, cluster.manager():
            path = tmp_path / "kubeconfig"
            path.write_text(json.dumps(cluster.server.kubeconfig()))
            shell = UserShell(path, capsys)
            await shell.run("quota", "rollback", "plan", code=1)
            assert "nothing to undo" in shell.errors
            hash_ = await until_proposed(cluster)
            shown = await shell.run("quota", "plan", "plan")
            assert f"Proposed: proposal {hash_} changes 2 quotas" in shown
            assert re.search(r"vision +default +cpu +10 +12 +14 +14 +14 +1344 +672 +0", shown)
            documents = yaml.safe_load_all(await shell.run("quota", "plan", "plan", "-o", "patch"))
            assert {each["metadata"]["name"]: nominal_of(each) for each in documents} == {
                "speech": "8",
                "vision": "12",
            }
            agreed = await shell.run("quota", "approve", "plan")
            assert "vision: 10 -> 12 cpu (default)" in agreed
            await until_state(cluster, "Applied")
            await shell.run("quota", "approve", "plan", code=1)
            assert "proposes nothing now. Applied" in shell.errors
            await shell.run("quota", "rollback", "plan", "--to", "7", code=1)
            assert "state 7 is not kept; there are: 0, 1" in shell.errors
            assert "vision: 12 -> 10 cpu (default)" in await shell.run("quota", "rollback", "plan")
            await asyncio.sleep(60)
            status = (await read_plan(cluster)).status
            assert status.state == "Applied"
            assert [state.number for state in status.states] == [0, 1, 2]
            assert await quotas(cluster) == SIZES
            await shell.run("quota", "plan", "other", code=1)
            assert 'there is no QuotaPlan "other"' in shell.errors

    run()


@virtual_time
async def test_somebody_else_s_quota_in_the_middle_of_a_change_ends_it() -> None:
    async with measured_teams() as cluster:
        async with cluster.manager():
            hash_ = await until_proposed(cluster)
        async with cluster.manager(client_type=dies_after(2)):
            await approve(cluster, hash_)
            await asyncio.sleep(60)
        groups = make_cluster_queue("vision", cpu="11")["spec"]["resourceGroups"]
        await cluster.client.patch(
            resources.CLUSTER_QUEUES, "vision", {"spec": {"resourceGroups": groups}}
        )
        async with cluster.manager():
            status = await until_state(cluster, "Dropped")
        assert 'ClusterQueue "vision" has another quota of cpu' in status.message
        assert "speech 10 -> 8 cpu (default), vision 10 -> 12 cpu (default)" in status.message
        assert await quotas(cluster) == {"vision": "11", "speech": "8"}


BAD_SPECS: list[tuple[dict[str, Any], str, str]] = [
    ({"cohort": "nobody"}, "Invalid", 'spec.cohort: no ClusterQueue in Cohort "nobody" or below'),
    (
        {
            "resources": [
                {"flavor": "default", "resource": "cpu"},
                {"flavor": "default", "resource": "memory"},
            ]
        },
        "Invalid",
        'spec.resources[1]: no ClusterQueue of Cohort "teams" has a quota of memory in flavor',
    ),
    (
        {"bounds": [{"clusterQueue": "vision", "min": 9, "max": "8"}]},
        "Invalid",
        "spec.bounds[0]: min 9 is more than max 8; lower min or raise max",
    ),
    (
        {"bounds": [{"clusterQueue": "audio", "min": 9}]},
        "Invalid",
        'spec.bounds[0]: ClusterQueue "audio" has no quota in this plan',
    ),
    (
        {"bounds": [{"clusterQueue": "vision", "min": 15}, {"clusterQueue": "speech", "min": 6}]},
        "Impossible",
        "speech 6 + vision 15 = 21 cpu in flavor default, and all queues together have 20",
    ),
    (
        {"history": {"credit": "49h"}},
        "Invalid",
        "spec.history.credit: 49h must be between 0h and 48h",
    ),
    (
        {"guard": {"watch": "169h"}},
        "Invalid",
        "spec.guard.watch: 169h must be between 0h and 168h",
    ),
    ({"every": "10m"}, "Invalid", "spec.every: 10m must be between 1h and 8784h"),
    ({"mode": "Paused"}, "Paused", "spec.mode is Paused"),
]


@virtual_time
async def test_a_plan_that_cannot_be_followed_says_why_and_writes_nothing() -> None:
    async with two_teams() as cluster, cluster.manager():
        for spec, state, words in BAD_SPECS:
            await cluster.create(resources.QUOTA_PLANS, make_plan(**spec))
            status = await until_state(cluster, state, hours=0.1)
            assert words in status.message
            await cluster.client.delete(resources.QUOTA_PLANS, "plan")
            await asyncio.sleep(1)
        assert await quotas(cluster) == SIZES


@virtual_time
async def test_of_two_plans_for_one_queue_the_older_one_counts() -> None:
    async with two_teams() as cluster, cluster.manager():
        await cluster.create(resources.QUOTA_PLANS, make_plan("older"))
        await asyncio.sleep(2)
        await cluster.create(resources.QUOTA_PLANS, make_plan("a-younger"))
        status = await until_state(cluster, "Invalid", name="a-younger", hours=0.1)
        assert 'ClusterQueue "speech" is in QuotaPlan "older" already' in status.message
        await until_state(cluster, "Learning", name="older", hours=0.1)


@virtual_time
async def test_a_plan_costs_a_write_an_hour_and_none_costs_none() -> None:
    async with two_teams() as cluster, cluster.manager():
        await asyncio.sleep(600)
        before = len(cluster.writes)
        await asyncio.sleep(600)
        assert len(cluster.writes) == before
        await cluster.create(resources.QUOTA_PLANS, make_plan(mode="Paused"))
        await asyncio.sleep(HOUR + 60)
        assert len(cluster.writes) - before == 2


@virtual_time
async def test_what_was_measured_outlives_the_manager() -> None:
    async with two_teams() as cluster:
        async with cluster.manager():
            await start(cluster, "v1", queue="vision", cpu=4)
            await cluster.create(
                resources.QUOTA_PLANS, make_plan(mode="Paused", history={"halfLife": "8000h"})
            )
            await asyncio.sleep(1.5 * HOUR)
        await asyncio.sleep(0.4 * HOUR)
        async with cluster.manager():
            await asyncio.sleep(0.2 * HOUR)
        status = (await read_plan(cluster)).status
        vision = next(row for row in status.demand if row.cluster_queue == "vision")
        # Every five minutes for two hours: those since the last write were made afterwards.
        assert count_samples(vision) == 2 * 12 + 1


def count_samples(row: PlanDemand) -> int:
    kept = sum(int(part.partition("x")[2]) for part in row.recent.split())
    return kept + round(sum(int(part.partition(":")[2]) for part in row.histogram.split()) / 1000)


def dies_after(writes: int) -> type[KubeClient]:
    """A client of a manager that hangs before its next write for a plan."""
    left = [writes]

    class DyingClient(KubeClient):
        async def patch(self, resource: Any, *arguments: Any, **options: Any) -> Any:
            is_ours = options.get("field_manager") == FIELD_MANAGER
            if is_ours or resource is resources.QUOTA_PLANS:
                if left[0] == 0:
                    await asyncio.Event().wait()
                left[0] -= 1
            return await super().patch(resource, *arguments, **options)

    return DyingClient


@virtual_time
async def test_a_queue_keeps_the_quota_of_jobs_that_nobody_may_stop() -> None:
    """Half of a quota is for them, so what holds five CPUs needs all ten."""
    async with two_teams() as cluster:
        policy = {
            "apiVersion": "multiqueue.dev/v1alpha1",
            "kind": "DisruptionPolicy",
            "metadata": {"name": "half"},
            "spec": {"protection": {"nonPreemptible": {"percent": 50}}},
        }
        await cluster.create(resources.DISRUPTION_POLICIES, policy)
        named = {"metadata": {"annotations": {names.DISRUPTION_POLICY: "half"}}}
        await cluster.client.patch(resources.CLUSTER_QUEUES, "speech", named)
        job = make_job(
            "held",
            queue="speech",
            cpu="5",
            labels={names.MAX_EXEC_TIME_SECONDS: "3600"},
            annotations={names.NON_PREEMPTIBLE: "true"},
        )
        async with cluster.manager():
            await submit(cluster, job)
            await cluster.changes.until(lambda: running(cluster, "held"), "it runs")
        await measure(cluster)
        async with cluster.manager():
            await until_state(cluster, "Unchanged")
            await complete(cluster, "held")
            await until_state(cluster, "Proposed", hours=60)
