"""Drains that give notice: a job saves its work before it moves to another worker (P-49, P-60)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api import names
from multiqueue.api.conditions import PREEMPTION_NOTICE, NoticeEnd, Reason, find_condition
from multiqueue.api.notices import Notice, end_notice, give_notice, parse_notice
from multiqueue.api.v1beta2 import Condition, format_time
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import finish, is_finished
from multiqueue.drain.notices import DrainNotices
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import CLUSTER_QUEUES, DISRUPTION_POLICIES, EVENTS, JOBS
from multiqueue.model.disruption_policy import CLOCK_SKEW
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.integration.test_cli_commands import UserShell, logs_are_not_output
from tests.integration.test_multikueue_drain import (
    annotate,
    assert_runs_once,
    condition,
    until_drained,
    until_on,
    until_says,
    where,
)
from tests.metric_values import read_value
from tests.multikueue_world import MultiKueueWorld, multikueue_world
from tests.virtual_time import virtual_time

__all__ = ["logs_are_not_output"]

LONG = 40
"""Seconds of notice for a job that needs 8 to save its work."""


async def begin(
    world: MultiKueueWorld, *more: str, told: bool = True, hook: str | None = None
) -> None:
    """Have jobs run on the worker `a` that save their work if they are told, under a policy."""
    policy = {
        "apiVersion": "multiqueue.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": "gpu"},
        "spec": {"notice": {"longest": "5m" if told else "0s", "hooks": hook is not None}},
    }
    await world.hub.create(DISRUPTION_POLICIES, policy)
    named = {"metadata": {"annotations": {names.DISRUPTION_POLICY: "gpu"}}}
    await world.hub.client.patch(CLUSTER_QUEUES, "cq", named)
    await world.until_connected()
    await annotate(world, "b", cordon="true")
    for name in ("job", *more):
        job = make_gpu_job(name, gpus=8 // (1 + len(more)))
        job["metadata"]["annotations"] = {
            names.CHECKPOINT_ON: "Notice",
            names.CHECKPOINT_SECONDS: "8",
            **({names.CHECKPOINT_HOOK: hook} if hook is not None else {}),
        }
        job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
        await world.hub.create(JOBS, job)
        assert await world.until_ready(name) == "a"
    await annotate(world, "b", cordon=None)
    await asyncio.sleep(60)


def condition_of(world: MultiKueueWorld) -> Condition | None:
    workload = world.workload("job")
    return workload and find_condition(workload.status.conditions, PREEMPTION_NOTICE)


def note_there(world: MultiKueueWorld) -> str:
    job = world.workers["a"].job("job") or {"metadata": {}}
    return str((job["metadata"].get("annotations") or {}).get(names.CHECKPOINT_BY, ""))


async def until_told(world: MultiKueueWorld) -> Notice:
    await world.until(lambda: note_there(world), "told", on="a")
    workload = world.workload("job")
    assert workload is not None
    notice = parse_notice(workload.status.conditions)
    assert notice is not None
    assert notice.by - notice.given_at == LONG
    assert note_there(world) == format_time(datetime.fromtimestamp(notice.by, UTC))
    return notice


async def save(world: MultiKueueWorld, at: datetime) -> None:
    body = {"metadata": {"annotations": {names.LAST_CHECKPOINT: format_time(at)}}}
    await world.workers["a"].client.patch(JOBS, "job", body, namespace=NAMESPACE)


async def events(world: MultiKueueWorld, reason: str) -> list[str]:
    await asyncio.sleep(2)
    listed = (await world.hub.client.list(EVENTS, namespace=NAMESPACE)).items
    return [event["message"] for event in listed if event["reason"] == reason]


@virtual_time
async def test_a_job_that_saves_its_work_moves_then_and_loses_little() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager() as manager:
        await begin(world)
        await annotate(world, "a", drain="true")
        notice = await until_told(world)
        await save(world, datetime.fromtimestamp(notice.given_at - 60, UTC))
        await asyncio.sleep(10)
        assert where(world, "job") == "a", "a checkpoint from before does not count"
        assert condition(world, "a").message.startswith("0 moved, 1 moving, 0 left; at most 0.00")
        await save(world, manager.clock.now())
        await until_on(world, "b", "job")
        assert manager.clock.now().timestamp() < notice.by - 20
        message = await until_drained(world, "a")
        assert message.startswith("1 moved, 0 moving, 0 left; at most 0.0")
        assert_runs_once(world, ["job"])
        await world.until_ready("job")
        over = condition_of(world)
        assert over is None or over.status == "False"
        (told,) = await events(world, "PreemptionNotice")
        assert told.endswith("save your work now. The cluster that runs it, a, is being drained")
        assert read_value(manager.metrics.notices_total.child("cq", "Saved")) == 1


@virtual_time
async def test_the_clock_of_a_job_may_be_a_minute_ahead_and_no_more() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager() as manager:
        await begin(world)
        await annotate(world, "a", drain="true")
        notice = await until_told(world)
        await save(world, manager.clock.now() + timedelta(seconds=CLOCK_SKEW + LONG))
        await asyncio.sleep(10)
        assert where(world, "job") == "a", "nobody saves in the future"
        await save(world, manager.clock.now() + timedelta(seconds=CLOCK_SKEW))
        await until_on(world, "b", "job")
        assert manager.clock.now().timestamp() < notice.by - 20
        assert (await until_drained(world, "a")).startswith("1 moved")
        assert read_value(manager.metrics.notices_total.child("cq", "Saved")) == 1


@virtual_time
async def test_a_job_that_ends_while_it_is_told_takes_no_turn_of_another() -> None:
    """One may leave an hour; the first one ends just before its notice is written."""
    ended: list[str] = []

    class LateClient(KubeClient):
        async def patch(self, resource: Any, name: str, *arguments: Any, **options: Any) -> Any:
            if not ended and PREEMPTION_NOTICE in repr((arguments, options)):
                ended.append(name)
                writer = WorkloadWriter(world.hub.client, world.hub.informers.workloads)
                now = manager.clock.now()
                await writer.update_status(
                    f"{NAMESPACE}/{name}",
                    lambda each: finish(each.status, "Succeeded", "", now=now),
                )
            return await super().patch(resource, name, *arguments, **options)

    async with (
        multikueue_world("a", "b", real_workers=True) as world,
        world.manager(client_type=LateClient) as manager,
    ):
        await begin(world, "other")
        await annotate(world, "a", drain="rate=1/h,at-once=1")
        store = world.hub.informers.workloads.store
        await world.until(
            lambda: any(parse_notice(each.status.conditions) for each in store.list()),
            "the other one is told",
        )
        assert [each.metadata.name for each in store.list() if is_finished(each.status)] == ended


@virtual_time
async def test_a_job_that_never_answers_moves_when_its_time_is_over() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager() as manager:
        await begin(world)
        await annotate(world, "a", drain="true")
        notice = await until_told(world)
        await world.until(lambda: world.check("job")[0] != "Ready", "sent away")
        assert 0 <= manager.clock.now().timestamp() - notice.by <= 2
        message = await until_drained(world, "a")
        assert "at most 0.2" in message, "8 GPUs for 100 seconds"
        assert read_value(manager.metrics.notices_total.child("cq", "TimedOut")) == 1


@virtual_time
async def test_a_job_runs_on_if_the_drain_is_ended_meanwhile() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
        await begin(world)
        await annotate(world, "a", drain="true")
        await until_told(world)
        await annotate(world, "a", drain=None)
        await world.until(lambda: not note_there(world), "taken back", on="a")
        over = condition_of(world)
        assert over is not None
        assert (over.status, over.reason) == ("False", "Rescinded")
        await asyncio.sleep(100)
        assert where(world, "job") == "a"
        assert await events(world, "PreemptionRescinded") == [over.message]


@virtual_time
async def test_a_new_manager_goes_on_with_the_notice() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world:
        async with world.manager():
            await begin(world)
            await annotate(world, "a", drain="true")
            notice = await until_told(world)
        await asyncio.sleep(20)
        async with world.manager() as manager:
            await world.until(lambda: world.check("job")[0] != "Ready", "sent away")
            assert 0 <= manager.clock.now().timestamp() - notice.by <= 2
            message = await until_drained(world, "a")
            assert message.startswith("1 moved, 0 moving, 0 left")


@virtual_time
async def test_a_job_whose_checkpoint_would_be_cut_off_stays_without_a_notice() -> None:
    """The same job under a policy that gives none: its pods have 5 seconds, it needs 8."""
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
        await begin(world, told=False)
        await annotate(world, "a", drain="true")
        await until_says(world, "a", "its pods are killed 5 s after")
        assert condition_of(world) is None
        assert where(world, "job") == "a"


@virtual_time
async def test_a_notice_of_a_preemption_is_not_cut_short_by_a_drain() -> None:
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager() as manager:
        await begin(world)
        by = manager.clock.now() + timedelta(seconds=30)
        why = "Preempted to accommodate a workload (UID: u, JobUID: j) due to reclamation"
        workload = world.workload("job")
        assert workload is not None
        now = manager.clock.now()
        told = give_notice(workload.status, Reason.IN_COHORT_RECLAMATION, why, by=by, now=now)
        notices = DrainNotices(manager, fleet=None)  # nothing is asked
        await manager.writer.update_status(workload.metadata.key, lambda _: told)
        found = await notices.give(workload, LONG, "drained")
        assert found is not None
        assert (found.by, found.is_of_drain) == (int(by.timestamp()), False)


@virtual_time
async def test_a_job_whose_notice_was_taken_back_is_told_anew_before_it_is_stopped() -> None:
    """As the engine takes the notice of a preemption back whose preemptor is gone."""
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager() as manager:
        await begin(world)
        await annotate(world, "a", drain="true")
        first = await until_told(world)
        await asyncio.sleep(20)
        workload = world.workload("job")
        assert workload is not None
        now = manager.clock.now()
        over = end_notice(workload.status, NoticeEnd.RESCINDED, "goes on", now=now)
        await manager.writer.update_status(workload.metadata.key, lambda _: over)
        await asyncio.sleep(first.by + 5 - manager.clock.now().timestamp())
        assert where(world, "job") == "a", "no notice in force ended"
        second = await until_told(world)
        assert second.by > first.by
        await until_on(world, "b", "job")
        assert manager.clock.now().timestamp() >= second.by


def test_a_preview_tells_who_gets_notice_and_until_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One by one: the second one is told once the first one has had its notice and has stopped."""

    @virtual_time
    async def run() -> None:
        async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
            await begin(world, "younger")
            path = tmp_path / "kubeconfig"
            path.write_text(yaml.safe_dump(world.hub.server.kubeconfig()))
            shell = UserShell(path, capsys)
            pace = "--at-once", "1", "--rate", "60/min"
            plan = await shell.json("clusters", "drain", "a", "--dry-run", *pace)
            assert [each["fate"] for each in plan["workloads"]] == ["Moves"] * 2
            assert [each["noticeSeconds"] for each in plan["workloads"]] == [LONG] * 2
            first, second = (parse_time(each["noticeUntil"]) for each in plan["workloads"])
            assert first is not None
            assert second is not None
            assert second - first == timedelta(seconds=LONG + 5)
            assert parse_time(plan["estimatedEnd"]) == second + timedelta(seconds=5)
            assert "moves to b, told until 20" in await shell.run(
                "clusters", "drain", "a", "--dry-run"
            )

    run()
