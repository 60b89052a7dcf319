"""Notices that are posted to the hooks of jobs, here and on workers; on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from multiqueue.api import names
from multiqueue.api.v1beta2 import format_time
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, Forbidden, RequestTimeout
from multiqueue.kube.resources import DISRUPTION_POLICIES, EVENTS, WORKLOADS
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import running
from tests.integration.test_disruption_policies import governed_cluster, make_policy, until
from tests.integration.test_multikueue_drain import annotate
from tests.integration.test_multikueue_drain_notices import begin, until_told
from tests.integration.test_preemption_notices import (
    SAVES,
    events_of,
    is_stopping,
    notice_of,
    noticed,
)
from tests.multikueue_world import multikueue_world
from tests.queue_manager import CONFIG
from tests.virtual_time import LoopClock, virtual_time

HOOK = {**SAVES, "checkpoint-hook": "trainer:8080/save"}
ALLOWED = make_policy(notice={"longest": "5m", "hooks": True})
NO_ENDPOINTS = ApiError(503, message='no endpoints available for service "trainer"')


class Post(NamedTuple):
    at: float
    server: str
    target: tuple[str, str, str]
    by: str


class Services:
    """What answers posts, in place of the Services of all clusters."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.answers: list[int | Exception] = []
        """The next answers; 204 once they are used up."""

    @contextmanager
    def installed(self) -> Iterator[Services]:
        async def post(client: KubeClient, *target: Any, timeout: float) -> int:
            *where, body = target
            at = asyncio.get_running_loop().time()
            self.posts.append(
                Post(at, client.credentials.server, tuple(where), body["checkpointBy"])
            )
            answer = self.answers.pop(0) if self.answers else 204
            if isinstance(answer, RequestTimeout):
                await asyncio.sleep(timeout)
            if isinstance(answer, Exception):
                raise answer
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KubeClient, "post_to_service", post)
            yield self


@virtual_time
async def test_a_notice_is_posted_once_within_seconds() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        async with (
            governed_cluster(ALLOWED, clock=clock) as cluster,
            cluster.manager(CONFIG, clock=clock),
        ):
            notice = await noticed(cluster, **HOOK)
            await until(cluster, lambda: is_stopping(cluster, "low"), "low evicted")
            (post,) = services.posts
            assert post.target == (NAMESPACE, "trainer:8080", "/save")
            assert post.by == format_time(datetime.fromtimestamp(notice.by, UTC))
            given_at = post.at - asyncio.get_running_loop().time() + clock.now().timestamp()
            assert 0 <= given_at - notice.given_at <= 2
            assert await events_of(cluster, "CheckpointHookFailed") == []


@virtual_time
async def test_a_post_is_repeated_until_it_is_answered_and_each_trouble_told_once() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        slow = RequestTimeout("no answer within 2 s")
        services.answers = [NO_ENDPOINTS, NO_ENDPOINTS, slow, 302, 204]
        async with (
            governed_cluster(ALLOWED, clock=clock) as cluster,
            cluster.manager(CONFIG, clock=clock),
        ):
            await noticed(cluster, **HOOK)
            await asyncio.sleep(60)
            begins = [round(post.at - services.posts[0].at) for post in services.posts]
            assert begins == [0, 5, 10, 17, 22]
            told = await events_of(cluster, "CheckpointHookFailed")
            assert len(told) == 3
            assert all("the notice did not reach the hook: " in each for each in told)
            for words in ("no endpoints available", "within 2 s", "answered with status 302"):
                assert sum(words in each for each in told) == 1


@virtual_time
async def test_a_hook_that_never_answers_makes_no_notice_longer() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        services.answers = [RequestTimeout("no answer within 2 s")] * 100
        async with (
            governed_cluster(ALLOWED, clock=clock) as cluster,
            cluster.manager(CONFIG, clock=clock),
        ):
            notice = await noticed(cluster, **HOOK)
            await until(cluster, lambda: is_stopping(cluster, "low"), "low evicted")
            assert 0 <= clock.now().timestamp() - notice.by <= 1
            await asyncio.sleep(10)
            posted = len(services.posts)
            assert posted > 10
            await asyncio.sleep(300)
            assert len(services.posts) == posted


@virtual_time
async def test_a_new_leader_posts_once_more_while_the_notice_is_in_force() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        async with governed_cluster(ALLOWED, clock=clock) as cluster:
            async with cluster.manager(CONFIG, clock=clock):
                await noticed(cluster, **HOOK)
                await asyncio.sleep(5)
            async with cluster.manager(CONFIG, clock=clock):
                await until(cluster, lambda: is_stopping(cluster, "low"), "low evicted")
            assert len({post.by for post in services.posts}) == 1
            assert len(services.posts) == 2


@virtual_time
async def test_a_new_leader_that_is_not_connected_yet_tells_of_no_trouble() -> None:
    with Services().installed() as services:
        async with multikueue_world("a", "b", real_workers=True) as world:
            async with world.manager():
                await begin(world, hook="trainer:http")
                await annotate(world, "a", drain="true")
                await until_told(world)
                await asyncio.sleep(3)
            async with world.manager():
                await asyncio.sleep(5)
            assert len(services.posts) == 2
            listed = (await world.hub.client.list(EVENTS, namespace=NAMESPACE)).items
            assert [e for e in listed if e["reason"] == "CheckpointHookFailed"] == []


@virtual_time
async def test_answers_that_differ_in_words_only_are_told_once() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        services.answers = [ApiError(500, message=f"request {n}") for n in range(100)]
        async with (
            governed_cluster(ALLOWED, clock=clock) as cluster,
            cluster.manager(CONFIG, clock=clock),
        ):
            await noticed(cluster, **HOOK)
            await asyncio.sleep(60)
            assert len(services.posts) > 10
            assert len(await events_of(cluster, "CheckpointHookFailed")) == 1


@virtual_time
async def test_a_hook_that_is_removed_during_a_notice_is_no_longer_posted_to() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        services.answers = [NO_ENDPOINTS] * 100
        async with (
            governed_cluster(ALLOWED, clock=clock) as cluster,
            cluster.manager(CONFIG, clock=clock),
        ):
            await noticed(cluster, **HOOK)
            name = cluster.workload_of("low").metadata.name
            gone = {"metadata": {"annotations": {names.CHECKPOINT_HOOK: None}}}
            await cluster.patch(WORKLOADS, name, gone, namespace=NAMESPACE)
            await asyncio.sleep(1)
            posted = len(services.posts)
            await asyncio.sleep(30)
            assert len(services.posts) == posted
            assert len(await events_of(cluster, "CheckpointHookFailed")) == 1


@virtual_time
async def test_nothing_is_posted_if_the_policy_does_not_allow_it_until_it_does() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        async with (
            governed_cluster(make_policy(notice={"longest": "5m"}), clock=clock) as cluster,
            cluster.manager(CONFIG, clock=clock),
        ):
            await noticed(cluster, **HOOK)
            await asyncio.sleep(30)
            assert services.posts == []
            (told,) = await events_of(cluster, "CheckpointHookFailed")
            assert told.endswith(
                "no DisruptionPolicy with notice.hooks: true governs ClusterQueue cq"
            )
            allowed = {"spec": {"notice": {"hooks": True}}}
            await cluster.patch(DISRUPTION_POLICIES, "gpu", allowed)
            await asyncio.sleep(6)
            assert len(services.posts) == 1


@virtual_time
async def test_a_missing_right_says_which_role_gives_it() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        services.answers = [Forbidden(403, message="services is forbidden")]
        async with (
            governed_cluster(ALLOWED, clock=clock) as cluster,
            cluster.manager(CONFIG, clock=clock),
        ):
            await noticed(cluster, **HOOK)
            (told,) = await events_of(cluster, "CheckpointHookFailed")
            assert "apply config/checkpoint-hooks" in told


@virtual_time
async def test_a_malformed_hook_is_told_and_the_notice_is_given_all_the_same() -> None:
    clock = LoopClock()
    with Services().installed() as services:
        async with (
            governed_cluster(ALLOWED, clock=clock) as cluster,
            cluster.manager(CONFIG, clock=clock),
        ):
            evil = {**SAVES, "checkpoint-hook": "trainer:8080/../../secrets"}
            await noticed(cluster, **evil)
            assert notice_of(cluster, "low") is not None
            (told,) = await events_of(cluster, "CheckpointHookFailed")
            assert f"metadata.annotations[{names.CHECKPOINT_HOOK}] is malformed" in told
            await until(cluster, lambda: not running(cluster, "low"), "low stopped")
            assert services.posts == []


@virtual_time
async def test_the_hook_of_a_job_on_a_worker_is_posted_through_that_worker() -> None:
    with Services().installed() as services:
        services.answers = [Forbidden(403, message="services is forbidden")]
        async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
            await begin(world, hook="trainer:http")
            await annotate(world, "a", drain="true")
            await until_told(world)
            await asyncio.sleep(8)
            servers = {post.server for post in services.posts}
            (cluster,) = world.kubeconfig("a")["clusters"]
            assert servers == {cluster["cluster"]["server"]}
            assert [post.target for post in services.posts] == [
                (NAMESPACE, "trainer:http", "/")
            ] * 2
            listed = (await world.hub.client.list(EVENTS, namespace=NAMESPACE)).items
            (told,) = (e["message"] for e in listed if e["reason"] == "CheckpointHookFailed")
            assert "apply config/worker-role-hooks on the worker" in told
