"""A gang starts sooner because a small job moves to another worker (P-93 to P-100)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import PREEMPTION_NOTICE, find_condition
from multiqueue.api.disruptions import StopCause, parse_stops
from multiqueue.api.notices import parse_notice
from multiqueue.api.v1beta2 import format_time
from multiqueue.drain.migrations import LEFT_ALONE
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.workload_writer import StatusChange
from multiqueue.kube.errors import ApiError
from multiqueue.kube.resources import CLUSTER_QUEUES, DISRUPTION_POLICIES, JOBS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.integration.test_multikueue_drain import annotate, assert_runs_once, until_on, where
from tests.metric_values import read_value
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time

SCORE = make_config(dispatcher_name="score")
NOTICE = 40
"""Seconds for a job that needs 8 to save its work."""


async def set_policy(world: MultiKueueWorld, gain: int) -> None:
    policy = {
        "apiVersion": "multiqueue.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": "gpu"},
        "spec": {"notice": {"longest": "5m"}, "migration": {"gain": gain}},
    }
    await world.hub.create(DISRUPTION_POLICIES, policy)
    named = {"metadata": {"annotations": {names.DISRUPTION_POLICY: "gpu"}}}
    await world.hub.client.patch(CLUSTER_QUEUES, "cq", named)


async def submit(world: MultiKueueWorld, name: str, gpus: int, **annotations: str) -> None:
    job = make_gpu_job(name, gpus=gpus)
    job["metadata"]["annotations"] = annotations
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    await world.hub.create(JOBS, job)


SAVES = {names.CHECKPOINT_ON: "Notice", names.CHECKPOINT_SECONDS: "8"}


async def run_on(world: MultiKueueWorld, worker: str, name: str, gpus: int, **said: str) -> None:
    """Have a job run on one worker, while the others are cordoned."""
    others = set(world.workers) - {worker}
    for other in others:
        await annotate(world, other, cordon="true")
    await submit(world, name, gpus, **said)
    assert await world.until_ready(name) == worker
    for other in others:
        await annotate(world, other, cordon=None)


@asynccontextmanager
async def starving_gang(gain: int = 2) -> AsyncIterator[tuple[MultiKueueWorld, ManagerContext]]:
    """`small` holds 2 of 8 GPUs of `a` and saves its work if told; `b` has 4 of 8 left.

    `gang` needs all of a worker, so it waits for `small`, which runs for an hour.
    """
    world_of_two = multikueue_world("a", "b", real_workers=True)
    async with world_of_two as world, world.manager(SCORE) as manager:
        await set_policy(world, gain)
        await world.until_connected()
        await run_on(world, "a", "small", 2, **SAVES, **{names.RUNTIME: "1h"})
        await run_on(world, "b", "other", 4, **{names.RUNTIME: "3h"})
        await asyncio.sleep(5)
        await submit(world, "gang", 8, **{names.RUNTIME: "1h"})
        yield world, manager


async def until_told(world: MultiKueueWorld, job: str = "small") -> int:
    """Wait until a job is told to save its work; return by when."""

    def by() -> int:
        workload = world.workload(job)
        notice = workload and parse_notice(workload.status.conditions)
        return notice.by if notice else 0

    await world.until(by, f"{job} is told")
    return by()


def migrations(manager: ManagerContext, result: str) -> float:
    return read_value(manager.metrics.migrations_total.child("a", result))


def stops(world: MultiKueueWorld, job: str = "small") -> list[str]:
    workload = world.workload(job)
    assert workload is not None
    return [stop.cause for stop in parse_stops(workload.status.conditions)]


@virtual_time
async def test_a_gang_starts_because_a_small_job_moved_with_its_work_saved() -> None:
    async with starving_gang() as (world, manager):
        by = await until_told(world)
        assert where(world, "gang") is None
        saved = format_time(manager.clock.now() + timedelta(seconds=1))
        await asyncio.sleep(1)
        body = {"metadata": {"annotations": {names.LAST_CHECKPOINT: saved}}}
        await world.workers["a"].client.patch(JOBS, "small", body, namespace=NAMESPACE)
        await until_on(world, "b", "small")
        await until_on(world, "a", "gang")
        assert manager.clock.now().timestamp() < by
        assert_runs_once(world, ["small", "gang", "other"])
        assert stops(world) == [StopCause.MIGRATION]
        assert not stops(world, "other")
        assert migrations(manager, "Moved") == 1
        assert migrations(manager, "NotStarted") == 0
        await asyncio.sleep(300)
        assert (where(world, "small"), where(world, "gang")) == ("b", "a")


@virtual_time
async def test_the_copy_there_is_made_once_the_job_here_has_stopped() -> None:
    """P-100."""
    async with starving_gang() as (world, _):
        await until_told(world)
        seen: list[tuple[bool, bool]] = []

        def note() -> bool:
            here, there = (world.workers[name].job("small") for name in ("a", "b"))
            seen.append((here is not None, there is not None))
            return where(world, "small") == "b"

        for worker in "ab":
            world.workers[worker].informers.jobs["batch/job"].add_handler(lambda *_: note())
        await until_on(world, "b", "small")
        assert (True, True) not in seen
        assert {(False, True)} <= set(seen)


@virtual_time
async def test_without_the_policy_nobody_moves() -> None:
    async with starving_gang(gain=0) as (world, manager):
        await asyncio.sleep(600)
        assert (where(world, "small"), where(world, "gang")) == ("a", None)
        workload = world.workload("small")
        assert workload is not None
        assert find_condition(workload.status.conditions, PREEMPTION_NOTICE) is None
        assert migrations(manager, "Moved") == 0


@virtual_time
async def test_what_is_not_worth_it_is_left() -> None:
    """The gang would save less than half an hour of 8 GPUs; a hundred times the price is more."""
    async with starving_gang(gain=100) as (world, _):
        await asyncio.sleep(600)
        assert (where(world, "small"), where(world, "gang")) == ("a", None)


@virtual_time
async def test_who_was_told_runs_on_if_the_gang_goes() -> None:
    async with starving_gang() as (world, manager):
        by = await until_told(world)
        await world.hub.client.delete(JOBS, "gang", namespace=NAMESPACE, propagation="Background")
        await asyncio.sleep(by + 60 - manager.clock.now().timestamp())
        assert where(world, "small") == "a"
        assert not stops(world)
        assert (migrations(manager, "Rescinded"), migrations(manager, "Moved")) == (1, 0)


@virtual_time
async def test_who_was_told_runs_on_if_its_room_elsewhere_goes() -> None:
    async with starving_gang() as (world, manager):
        by = await until_told(world)
        await annotate(world, "b", cordon="true")
        await asyncio.sleep(by + 60 - manager.clock.now().timestamp())
        assert where(world, "small") == "a"
        assert not stops(world)


@virtual_time
async def test_who_saved_its_work_for_nothing_is_left_alone_for_a_while() -> None:
    """Without this, room that comes and goes would have it save its work each minute."""
    async with starving_gang() as (world, manager):
        await until_told(world)
        await annotate(world, "b", cordon="true")
        await world.until(lambda: migrations(manager, "Rescinded"), "the notice is taken back")
        await annotate(world, "b", cordon=None)
        await asyncio.sleep(LEFT_ALONE.total_seconds() - 60)
        assert (where(world, "small"), where(world, "gang")) == ("a", None)
        assert (migrations(manager, "Rescinded"), migrations(manager, "Moved")) == (1, 0)
        await asyncio.sleep(120)
        await until_on(world, "b", "small")
        await until_on(world, "a", "gang")


@virtual_time
async def test_room_on_a_third_worker_is_not_the_room_that_was_kept() -> None:
    """P-98: nobody is stopped whose place went; it may be told anew, with another place."""
    world_of_three = multikueue_world("a", "b", "c", real_workers=True)
    async with world_of_three as world, world.manager(SCORE) as manager:
        await set_policy(world, 2)
        await world.until_connected()
        await run_on(world, "a", "small", 2, **SAVES, **{names.RUNTIME: "1h"})
        await run_on(world, "b", "other", 4, **{names.RUNTIME: "3h"})
        await run_on(world, "c", "third", 4, **{names.RUNTIME: "3h"})
        await asyncio.sleep(5)
        await submit(world, "gang", 8, **{names.RUNTIME: "1h"})
        by = await until_told(world)
        await annotate(world, "b", cordon="true")
        await asyncio.sleep(by + 10 - manager.clock.now().timestamp())
        assert where(world, "small") == "a"
        assert (migrations(manager, "Rescinded"), migrations(manager, "Moved")) == (1, 0)
        await asyncio.sleep(LEFT_ALONE.total_seconds())
        await until_on(world, "c", "small")
        await until_on(world, "a", "gang")
        assert stops(world) == [StopCause.MIGRATION]


@virtual_time
async def test_a_notice_whose_write_was_not_answered_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with starving_gang() as (world, manager):
        write, failed = manager.writer.update_status, list[int]()

        async def lose_the_answer(key: str, change: StatusChange) -> api.Workload:
            written = await write(key, change)
            notice = parse_notice(written.status.conditions)
            if notice is not None and not failed:
                failed.append(notice.by)
                raise ApiError(500, message="the answer is lost")
            return written

        monkeypatch.setattr(manager.writer, "update_status", lose_the_answer)
        await world.until(lambda: failed, "the write is lost")
        await asyncio.sleep(10)
        workload = world.workload("small")
        assert workload is not None
        assert parse_notice(workload.status.conditions) is None
        await asyncio.sleep(failed[0] - manager.clock.now().timestamp())
        assert where(world, "small") == "a"
        await asyncio.sleep(LEFT_ALONE.total_seconds())
        await until_on(world, "b", "small")
        await until_on(world, "a", "gang")
        assert stops(world) == [StopCause.MIGRATION]


@virtual_time
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_who_was_stopped_and_found_no_worker_is_counted_while_it_is_there(
    is_deleted: bool,
) -> None:
    async with starving_gang() as (world, manager):
        await until_told(world)
        await world.until(lambda: migrations(manager, "Moved"), "small is stopped")
        await annotate(world, "b", cordon="true")
        await until_on(world, "a", "gang")
        if is_deleted:
            await world.hub.client.delete(
                JOBS, "small", namespace=NAMESPACE, propagation="Background"
            )
        await asyncio.sleep(180)
        assert migrations(manager, "NotStarted") == (0 if is_deleted else 1)


@virtual_time
async def test_a_new_manager_takes_the_notice_back_or_goes_on_without_a_second_copy() -> None:
    world_of_two = multikueue_world("a", "b", real_workers=True)
    async with world_of_two as world:
        async with world.manager(SCORE):
            await set_policy(world, 2)
            await world.until_connected()
            await run_on(world, "a", "small", 2, **SAVES, **{names.RUNTIME: "1h"})
            await run_on(world, "b", "other", 4, **{names.RUNTIME: "3h"})
            await asyncio.sleep(5)
            await submit(world, "gang", 8, **{names.RUNTIME: "1h"})
            await until_told(world)
        async with world.manager(SCORE):
            await asyncio.sleep(LEFT_ALONE.total_seconds() + 60)
            await until_on(world, "a", "gang")
            await until_on(world, "b", "small")
            assert_runs_once(world, ["small", "gang", "other"])
            assert stops(world) == [StopCause.MIGRATION]


@virtual_time
async def test_a_drain_that_begins_meanwhile_takes_over() -> None:
    async with starving_gang() as (world, _):
        await until_told(world)
        await annotate(world, "a", drain="true")
        await until_on(world, "b", "small")
        await asyncio.sleep(60)
        assert where(world, "gang") is None
        assert_runs_once(world, ["small", "other"])
