"""Cordon and drain of workers, with real workers: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import CORDONED, DRAINED, DrainReason, find_condition
from multiqueue.dispatch.worker_metrics import Rejection
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    RESOURCE_FLAVORS,
)
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU, make_gpu_flavor, make_gpu_queue
from tests.integration.waiting import until
from tests.metric_values import read_value
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time

GANGS = tuple(f"gang{i}" for i in range(4))


async def annotate(world: MultiKueueWorld, name: str, **marks: str | None) -> None:
    """What ``kubectl annotate multikueuecluster`` does; None removes."""
    annotations = {getattr(names, key.upper()): value for key, value in marks.items()}
    await world.hub.patch(MULTIKUEUE_CLUSTERS, name, {"metadata": {"annotations": annotations}})


def condition(world: MultiKueueWorld, name: str, type_: str = DRAINED) -> Any:
    cluster = world.hub.informers.multikueue_clusters.store.get(name)
    return find_condition(cluster.status.conditions, type_) if cluster is not None else None


async def until_drained(world: MultiKueueWorld, name: str) -> str:
    """Wait for the end of a drain; returns what was said last."""
    await world.changes.until(
        lambda: (c := condition(world, name)) and c.status == "True", f"{name} drained"
    )
    return str(condition(world, name).message)


async def until_says(world: MultiKueueWorld, name: str, words: str) -> str:
    """Wait until the condition Drained says something; returns all of it."""
    await world.changes.until(
        lambda: (c := condition(world, name)) and words in c.message, f"{words} on {name}"
    )
    return str(condition(world, name).message)


async def submit_to(
    world: MultiKueueWorld, worker: str, jobs: Iterable[str], *, gpus: int = 1
) -> None:
    """Have jobs admitted on one worker, while the others are cordoned."""
    others = [name for name in world.workers if name != worker]
    for name in others:
        await annotate(world, name, cordon="true")
    for job in jobs:
        await world.hub.create(JOBS, make_gpu_job(job, gpus=gpus))
    for job in jobs:
        assert await world.until_ready(job) == worker
    for name in others:
        await annotate(world, name, cordon=None)


def where(world: MultiKueueWorld, job: str) -> str | None:
    workload = world.workload(job)
    return workload.status.cluster_name if workload is not None else None


async def until_on(world: MultiKueueWorld, worker: str, job: str) -> None:
    """Wait until a worker holds the latch of a job."""
    await world.until(lambda: where(world, job) == worker, f"{job} on {worker}")


def assert_runs_once(world: MultiKueueWorld, jobs: Iterable[str]) -> None:
    """Each job is not suspended on exactly the cluster that holds the latch."""
    for job in jobs:
        running = [
            name
            for name, worker in world.workers.items()
            if (found := worker.job(job)) is not None and not found["spec"]["suspend"]
        ]
        assert running in ([], [where(world, job)]), (job, running)


@pytest.mark.parametrize("dispatcher", ["all-at-once", "score"])
async def test_four_gangs_move_to_another_worker(dispatcher: str) -> None:
    config = make_config(dispatcher_name=dispatcher)
    world_of_two = multikueue_world("a", "b", real_workers=True)
    async with world_of_two as world, world.manager(config) as manager:
        await world.until_connected()
        await submit_to(world, "a", GANGS)
        await annotate(world, "a", drain="true")
        for job in GANGS:
            await until_on(world, "b", job)
        message = await until_drained(world, "a")
        assert message.startswith("4 moved, 0 moving, 0 left; at most 0.0")
        assert_runs_once(world, GANGS)
        assert not any(world.copy("a", job) or world.workers["a"].job(job) for job in GANGS)
        given_up = manager.metrics.worker_rejections_total.child("cq", "a", Rejection.DRAINED)
        assert read_value(given_up) == 4


async def test_what_has_nowhere_to_go_stays_and_says_why_until_it_is_forced() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
        await world.until_connected()
        await set_quota(world, "b", 2)
        await submit_to(world, "a", ["large"], gpus=8)
        await annotate(world, "a", drain="true")
        words = "stays: no other cluster can ever hold it: b has at most 2 nvidia.com/gpu, 8 asked"
        message = await until_says(world, "a", words)
        assert message.startswith("0 moved, 0 moving, 1 left")
        assert condition(world, "a").reason == DrainReason.STUCK
        assert where(world, "large") == "a"
        await until_event(world, "large", "the workload stays there for now: no other cluster")
        await annotate(world, "a", drain="force")
        await world.until(lambda: where(world, "large") is None, "sent away")
        assert (await until_drained(world, "a")).startswith("0 moved, 1 stopped by force")


async def test_what_other_clusters_are_too_full_for_waits_where_it_runs() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
        await world.until_connected()
        await submit_to(world, "b", ["other"], gpus=6)
        await submit_to(world, "a", ["small"], gpus=2)
        await submit_to(world, "a", ["large"], gpus=4)
        await annotate(world, "a", drain="true")
        await until_says(world, "a", "no other cluster has room for it now: b waits: 4")
        await until_on(world, "b", "small")
        assert where(world, "large") == "a"
        assert condition(world, "a").reason in {DrainReason.WAITING, DrainReason.DRAINING}
        await world.hub.client.delete(JOBS, "other", namespace="team-a")
        await until_on(world, "b", "large")
        await until_drained(world, "a")
        assert_runs_once(world, ["small", "large"])


async def test_a_manager_that_is_killed_in_mid_drain_is_not_replaced_by_a_hurried_one() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world:
        async with world.manager():
            await world.until_connected()
            await submit_to(world, "a", GANGS)
            await annotate(world, "a", drain="rate=1/h,at-once=2")
            await until_says(world, "a", "2 moved, 0 moving, 2 left")
        async with world.manager():
            await world.until_connected()
            await annotate(world, "a", drain="rate=1/h,at-once=3")
            await world.hub.create(JOBS, make_gpu_job("later"))
            assert await world.until_ready("later") == "b"
            assert sum(where(world, job) == "a" for job in GANGS) == 2
            assert condition(world, "a").message.startswith("2 moved, 0 moving, 2 left")
            await annotate(world, "a", drain="rate=9999/min,at-once=3")
            assert (await until_drained(world, "a")).startswith("4 moved, 0 moving, 0 left")
            assert_runs_once(world, GANGS)


@virtual_time
async def test_so_many_are_on_their_way_out_at_a_time_however_long_they_take_to_stop() -> None:
    """The rate alone would let all go before the first has stopped."""
    config = make_config(worker_lost_timeout=timedelta(minutes=15))
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager(config):
        await world.until_connected()
        jobs = ("first", "second")
        await submit_to(world, "a", jobs)
        for job in jobs:
            await world.run_job("a", job)
            await world.until(lambda j=job: world.hub.job(j)["status"].get("active"), "runs")
        await annotate(world, "a", drain="rate=600/min,at-once=1")
        for left in (1, 0):
            await asyncio.sleep(10.0)
            assert f" 1 moving, {left} left" in condition(world, "a").message
            (job,) = (job for job in jobs if where(world, job) is None)
            await world.set_job_status("a", job, active=0, ready=0)
            await until_on(world, "b", job)
        assert (await until_drained(world, "a")).startswith("2 moved, 0 moving, 0 left")


async def test_uncordon_in_mid_drain_stops_it() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
        await world.until_connected()
        await submit_to(world, "a", GANGS)
        await annotate(world, "a", drain="rate=1/h,at-once=1")
        await until_says(world, "a", "1 moved, 0 moving, 3 left")
        await world.until(lambda: any(where(world, job) == "b" for job in GANGS), "one on b")
        assert condition(world, "a", CORDONED).reason == DrainReason.DRAINING
        await annotate(world, "a", drain=None)
        await world.changes.until(lambda: condition(world, "a", CORDONED) is None, "uncordoned")
        assert condition(world, "a") is None
        assert world.cluster_condition("a")[0] == "True"
        assert sorted(str(where(world, job)) for job in GANGS) == ["a", "a", "a", "b"]
        await annotate(world, "b", cordon="true")
        await world.hub.create(JOBS, make_gpu_job("later"))
        assert await world.until_ready("later") == "a"


async def test_a_worker_that_is_out_of_reach_is_drained_once_it_answers() -> None:
    """G-1, G-22: nobody can stop what runs there, so nobody lets it run elsewhere."""
    config = make_config(worker_lost_timeout=timedelta(minutes=15))
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager(config):
        await world.until_connected()
        await submit_to(world, "a", GANGS[:2])
        world.gates["a"].cut()
        await world.until_cluster("a", reason="ClientConnectionFailed")
        await annotate(world, "a", drain="true")
        await until_says(world, "a", "the worker cannot be reached")
        assert [where(world, job) for job in GANGS[:2]] == ["a", "a"]
        world.gates["a"].heal()
        await world.put_secret("a", {**world.kubeconfig("a"), "preferences": {"x": "y"}})
        await until_drained(world, "a")
        for job in GANGS[:2]:
            await until_on(world, "b", job)
        assert_runs_once(world, GANGS[:2])


async def test_a_cordon_moves_what_waits_and_leaves_what_runs() -> None:
    """A cluster that leaves the configuration is cordoned by that, not drained: G-2, M-91."""
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
        await world.until_connected()
        await submit_to(world, "a", ["runs"], gpus=8)
        await annotate(world, "b", cordon="rack 3")
        await world.hub.create(JOBS, make_gpu_job("waits"))
        await world.until(lambda: world.copy("a", "waits"), "offered to a", on="a")
        assert world.copy("b", "waits") is None
        await annotate(world, "b", cordon=None)
        await annotate(world, "a", cordon="firmware")
        assert await world.until_ready("waits") == "b"
        await world.until(lambda: world.copy("a", "waits") is None, "withdrawn", on="a")
        message = condition(world, "a", CORDONED).message
        assert message == 'Nothing new goes to "a": it is cordoned (firmware)'
        await world.set_clusters("b")
        await world.hub.create(JOBS, make_gpu_job("later"))
        assert await world.until_ready("later") == "b"
        assert where(world, "runs") == "a"
        assert condition(world, "a") is None


async def test_a_cluster_that_leaves_the_configuration_in_mid_drain_is_drained_to_the_end() -> None:
    """G-2, G-3: only the order moves jobs, and it stands while the MultiKueueCluster does."""
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
        await world.until_connected()
        await submit_to(world, "a", GANGS)
        await annotate(world, "a", drain="rate=1/h,at-once=1")
        await until_says(world, "a", "1 moved, 0 moving, 3 left")
        await world.set_clusters("b")
        await annotate(world, "a", drain="rate=1/h,at-once=1,not-before=2999-01-01T00:00:00Z")
        await until_says(world, "a", "nothing is moved before 2999-01-01T00:00:00Z")
        await annotate(world, "a", drain="fast")
        await until_says(world, "a", 'Nothing is moved: annotation "multiqueue.dev/drain": "fast"')
        assert sum(where(world, job) == "a" for job in GANGS) == 3
        await annotate(world, "a", drain="rate=9999/min")
        await until_drained(world, "a")
        assert [where(world, job) for job in GANGS].count("a") == 0


async def test_a_checkpoint_that_would_be_cut_off_is_not() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
        await world.until_connected()
        job = make_gpu_job("saves")
        job["metadata"]["annotations"] = {names.CHECKPOINT_SECONDS: "600"}
        await annotate(world, "b", cordon="true")
        await world.hub.create(JOBS, job)
        assert await world.until_ready("saves") == "a"
        await annotate(world, "b", cordon=None)
        await annotate(world, "a", drain="true")
        await until_says(
            world, "a", "saving its checkpoint takes 600 s, and its pods are killed 30"
        )
        assert where(world, "saves") == "a"


async def set_quota(world: MultiKueueWorld, worker: str, gpus: int) -> None:
    await world.workers[worker].patch(CLUSTER_QUEUES, "cq", {"spec": make_gpu_queue(gpus)["spec"]})


async def until_event(world: MultiKueueWorld, job: str, words: str) -> None:
    """Wait for an Event about the Workload of a job."""
    workload = world.workload(job)
    assert workload is not None

    await until(
        world.hub.client,
        EVENTS,
        lambda events: any(
            event["involvedObject"].get("name") == workload.metadata.name
            and words in event["message"]
            for event in events
        ),
        namespace="team-a",
    )


async def test_other_hardware_counts_where_the_manager_has_quota_for_it_too() -> None:
    """The manager reserves anew, on the flavor of the cluster that is left."""
    async with multikueue_world("a", "b", real_workers=True) as world:
        await set_flavors(world, a100=8, h100=2)
        async with world.manager():
            await world.until_connected()
            await submit_to(world, "a", ["small"], gpus=2)
            await submit_to(world, "a", ["large"], gpus=4)
            assert flavor_of(world, "small") == "a100"
            await annotate(world, "a", drain="true")
            words = (
                'large-.* stays: .*: b would take it, but ClusterQueue "cq" here has no h100 left'
            )
            await until_matches(world, "a", words)
            await until_on(world, "b", "small")
            assert flavor_of(world, "small") == "h100"
            assert where(world, "large") == "a"


async def set_flavors(world: MultiKueueWorld, **quotas: int) -> None:
    """Worker a has A100s, worker b H100s; the manager has quota for both."""
    for cluster, own in (
        (world.hub, None),
        (world.workers["a"], "a100"),
        (world.workers["b"], "h100"),
    ):
        for name in quotas if own is None else [own]:
            await cluster.create(RESOURCE_FLAVORS, make_gpu_flavor(name, gpu=name))
        flavors = [
            {"name": name, "resources": [{"name": GPU, "nominalQuota": str(quota)}]}
            for name, quota in (quotas if own is None else {own: 8}).items()
        ]
        groups = [{"coveredResources": [GPU], "flavors": flavors}]
        await cluster.patch(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": groups}})


def flavor_of(world: MultiKueueWorld, job: str) -> str:
    workload = world.workload(job)
    assert workload is not None
    assert workload.status.admission is not None
    return workload.status.admission.pod_set_assignments[0].flavors[GPU]


async def until_matches(world: MultiKueueWorld, name: str, pattern: str) -> None:
    await world.changes.until(
        lambda: (c := condition(world, name)) and re.search(pattern, c.message), pattern
    )
