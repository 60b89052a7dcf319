"""What the probes see: both replicas serve, and whoever cannot lead any more ends."""

from __future__ import annotations

import asyncio

import pytest

from multiqueue.kube.resources import JOBS
from multiqueue.runtime.components import innermost
from multiqueue.runtime.manager import LeadershipLost, Manager, ManagerOptions
from tests.integration.test_runtime_manager import (
    credentials,
    embedded,
    get,
    leader_and_standby,
    make_config,
    running,
)

PATIENT = {"leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "200ms"}
"""Kept on a busy machine, and lost soon once there is no API server."""

POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "job",
        "namespace": "default",
        "labels": {"kueue.x-k8s.io/queue-name": "queue"},
    },
    "spec": {"template": {"spec": POD}},
}


async def until_ready(manager: Manager) -> None:
    await manager.serving.wait()
    while (await get(manager.health_port, "/readyz"))[0] != 200:
        pass  # each question lets the manager go on


async def test_leader_and_standby_are_both_ready() -> None:
    """The Service of the webhooks leads to both."""
    async with embedded() as (cluster, _):
        config = make_config(leaderElection={})  # nothing ends on a busy machine
        managers = [Manager(config, await credentials(cluster)) for _ in range(2)]
        async with running(managers[0]), running(managers[1]):
            for manager in managers:
                await until_ready(manager)
            _, standby = await leader_and_standby(*managers)
            assert not standby.leading.is_set()
            checks = (await get(standby.health_port, "/readyz?verbose"))[1]
    assert checks == "[+]started ok\n[+]webhooks ok\ncheck passed\n"


async def test_a_manager_that_ends_is_not_ready_and_answers_for_a_while() -> None:
    async with embedded() as (cluster, client):
        options = ManagerOptions(drain_seconds=1)
        manager = Manager(make_config(leaderElection={}), await credentials(cluster), options)
        async with running(manager) as task:
            await until_ready(manager)
            task.cancel()
            status = 200
            while status == 200:
                status, text = await get(manager.health_port, "/readyz")
            assert "[-]started failed: the manager is stopping" in text
            made = await client.create(JOBS, JOB)
            assert made["spec"]["suspend"] is True  # its webhooks still answer
            assert not task.done()


async def test_without_an_api_server_a_leader_ends_and_a_standby_waits() -> None:
    managers = []
    async with embedded() as (cluster, _):
        config = make_config(leaderElection=PATIENT)
        managers = [Manager(config, await credentials(cluster)) for _ in range(2)]
        tasks = {each: asyncio.create_task(each.run()) for each in managers}
        leader, standby = await leader_and_standby(*managers)
        await until_ready(standby)
        assert (await get(leader.health_port, "/healthz/leader-election"))[0] == 200
    try:
        with pytest.raises(BaseException) as caught:
            await asyncio.wait_for(tasks[leader], 30)
        assert isinstance(innermost(caught.value), LeadershipLost)
        # A restart would bring the API server back no sooner, and lose what the standby knows.
        assert await get(standby.health_port, "/healthz") == (200, "ok")
        assert await get(standby.health_port, "/readyz") == (200, "ok")
    finally:
        tasks[standby].cancel()
        await asyncio.wait({tasks[standby]})
