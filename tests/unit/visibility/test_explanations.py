"""What the manager says about a Workload that waits, rendered from its engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import orjson
import pytest
from aiohttp.test_utils import make_mocked_request

from multiqueue.api import v1beta2 as api
from multiqueue.api.disruptions import StopCause
from multiqueue.api.serde import decode
from multiqueue.engine.options import AdmissionFairSharing, EngineOptions, FairSharing
from multiqueue.lib.quantity import Quantity
from multiqueue.model.cluster_queue import AdmissionMode, LocalQueue
from multiqueue.model.disruption_policy import DisruptionRules, ProtectionRule
from multiqueue.model.past_usage import ConsumedResources
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.serving.request import HttpRequest
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, RightsReviewer, action_of, forbidden
from multiqueue.visibility.explanation_status import build_status
from multiqueue.visibility.explanations import ExplanationAnswers
from multiqueue.visibility.positions import PositionReader
from multiqueue.visibility.refusals import StatusRefusal
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
)
from tests.engine_world import EngineWorld
from tests.preemption_world import ANY, make_cpu_queue

PATH = f"/apis/remote.multiqueue.dev/v1alpha1/namespaces/{NAMESPACE}/workloads/w/explanation"
WORKLOAD = decode(
    api.Workload,
    {"metadata": {"name": "w", "namespace": NAMESPACE}, "spec": {"queueName": "lq"}},
)
SHORT = "insufficient unused quota for nvidia.com/gpu in flavor a100, 2 more needed"


async def explain(
    world: EngineWorld, name: str, queue: str = "cq", *, leading: bool = True
) -> dict[str, Any]:
    positions = await PositionReader(world.engine).of_cluster_queue(queue)
    return build_status(world.engine, f"{NAMESPACE}/{name}", queue, positions, leading=leading)


def full_world(options: EngineOptions | None = None) -> EngineWorld:
    """3 of 4 GPUs are in use; "first" waits for 2, "second" for 3."""
    world = EngineWorld(make_queue("cq", flavor_quotas("a100", gpu=4)), options=options)
    for name, gpus in (("runs", 3), ("first", 2), ("second", 3)):
        world.submit(make_workload(name, pod_sets=[pod_set(gpu=gpus)]))
        world.write_back(world.cycle())
    return world


async def test_the_leader_tells_reason_place_and_numbers() -> None:
    assert await explain(full_world(), "second") == {
        "leading": True,
        "clusterQueue": "cq",
        "pending": True,
        "reason": "WaitingForQuota",
        "message": f"couldn't assign flavors to pod set main: {SHORT}",
        "preemption": {
            "victims": 0,
            "gated": False,
            "refusal": "ClusterQueue cq preempts nobody: its preemption.withinClusterQueue and "
            "preemption.reclaimWithinCohort are Never",
        },
        "takenBy": [],
        "podSets": [
            {
                "name": "main",
                "pods": 1,
                "flavors": [
                    {
                        "name": "a100",
                        "reason": "WaitingForQuota",
                        "messages": [SHORT],
                        "words": [SHORT],
                        "missing": ["nvidia.com/gpu"],
                    }
                ],
            }
        ],
        "pendingInClusterQueue": 2,
        "positionInClusterQueue": 1,
        "positionInLocalQueue": 1,
        "flavors": [
            {
                "name": "a100",
                "resource": "nvidia.com/gpu",
                "requested": "3",
                "nominal": "4",
                "used": "3",
                "free": "1",
                "borrowable": "0",
                "verdict": "2 more needed",
                "missing": "2",
            }
        ],
    }


async def test_a_standby_tells_all_but_the_reason() -> None:
    world = full_world()
    leader, standby = await explain(world, "first"), await explain(world, "first", leading=False)
    reason = {"reason", "message", "preemption", "podSets", "takenBy"}
    assert standby == {k: v for k, v in leader.items() if k not in reason} | {"leading": False}


async def test_of_what_does_not_wait_nothing_is_told() -> None:
    world = full_world()
    silent = {"leading": True, "clusterQueue": "cq", "pending": False}
    assert await explain(world, "runs") == silent
    assert await explain(world, "unknown") == silent


async def test_where_the_queue_leads_nowhere_there_is_a_reason_and_no_number() -> None:
    world = full_world()
    world.submit(make_workload("lost", queue="none"))
    status = await explain(world, "lost", "")
    assert (status["reason"], status["message"]) == (
        "Misconfigured",
        "LocalQueue none doesn't exist",
    )
    assert "flavors" not in status
    assert "positionInClusterQueue" not in status


async def test_shares_and_what_they_forbid_are_told() -> None:
    world = EngineWorld(
        make_cpu_queue("a", 0, cohort="team", reclaim=ANY),
        make_cpu_queue("b", 0, cohort="team"),
        make_cpu_queue("lender", 6, cohort="team"),
        options=EngineOptions(fair_sharing=FairSharing()),
    )
    world.submit(make_workload("large", queue="b", pod_sets=[pod_set(cpu=3)]))
    world.submit(make_workload("other", queue="a", pod_sets=[pod_set(cpu=3)]))
    world.write_back(world.cycle())
    world.submit(make_workload("more", queue="a"))
    world.cycle()
    assert (await explain(world, "more", "a"))["fairSharing"] == {
        "weightedShare": 500,
        "clusterQueues": [
            {"name": "lender", "share": 0},
            {"name": "a", "share": 500},
            {"name": "b", "share": 500},
        ],
        "loss": {"name": "a", "share": 667, "other": "b", "otherShare": 500},
    }


def past_usage_world() -> EngineWorld:
    """A Workload waits in a LocalQueue of each of two namespaces; the other one used less."""
    world = EngineWorld(
        make_queue("cq", flavor_quotas("f", cpu=0), admission_mode=AdmissionMode.USAGE_BASED),
        options=EngineOptions(admission_fair_sharing=AdmissionFairSharing()),
    )
    world.engine.upsert_namespace("other", {})
    world.engine.upsert_local_queue(LocalQueue(key="other/lq", cluster_queue="cq"))
    usage = world.engine.usage
    assert usage is not None
    for key, cpu in ((f"{NAMESPACE}/lq", 3), ("other/lq", 1)):
        past = ConsumedResources(by_resource={"cpu": Quantity.of(cpu)}, updated_at=T0)
        usage.seed(key, past, T0)
    world.submit(make_workload("w"), make_workload("x", namespace="other"))
    return world


async def test_past_usage_is_told_the_least_first_of_empty_queues_too() -> None:
    world = past_usage_world()
    world.engine.delete_workload("other/x", T0)
    status = await explain(world, "w")
    assert status["pastUsage"] == [
        {"localQueue": "other/lq", "usage": 1.0},
        {"localQueue": f"{NAMESPACE}/lq", "usage": 3.0},
    ]


def asked(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {row["name"]: (row["requested"], row["verdict"]) for row in status["flavors"]}


async def test_each_flavor_is_asked_for_as_many_pods_as_are_needed_on_it() -> None:
    """Four H100 are enough: nothing is missing there."""
    world = EngineWorld(
        make_queue("cq", flavor_quotas("slow", gpu=4)),
        flavors=[ResourceFlavor(name="fast", node_labels={"gpu": "h100"})],
    )
    quotas = (flavor_quotas("slow", gpu=4), flavor_quotas("fast", gpu=4))
    world.engine.upsert_cluster_queue(make_queue("cq", group(*quotas)))
    gang = replace(pod_set(count=8, gpu=1), alternatives=(("", 8), ("h100", 4)))
    world.submit(make_workload("w", pod_sets=[gang]))
    assert asked(await explain(world, "w")) == {
        "slow": ("8", "4 more needed"),
        "fast": ("4", "fits"),
    }


async def test_a_slice_asks_for_what_the_one_that_it_replaces_does_not_have() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("a100", gpu=4)))
    world.submit(make_workload("old", pod_sets=[pod_set(count=2, gpu=1)]))
    world.write_back(world.cycle())
    world.submit(
        make_workload("new", pod_sets=[pod_set(count=5, gpu=1)], replaces=f"{NAMESPACE}/old")
    )
    assert asked(await explain(world, "new")) == {"a100": ("3", "1 more needed")}


async def test_quota_for_pods_counts() -> None:
    quotas = flavor_quotas("f", cpu=9, pods=1)
    world = EngineWorld(make_queue("cq", quotas))
    world.submit(make_workload("w", pod_sets=[pod_set(count=3, cpu=1)]))
    rows = (await explain(world, "w"))["flavors"]
    assert [(row["resource"], row["requested"], row["verdict"]) for row in rows] == [
        ("cpu", "3", "fits"),
        ("pods", "3", "2 more needed"),
    ]


class Rights:
    """Knows one user, who may see whole ClusterQueues."""

    async def authorize(self, user: AuthenticatedUser, action: ApiAction) -> None:
        if user.name != "admin":
            raise forbidden(user, action)
        assert (action.resource, action.name) == ("clusterqueues", "cq")
        assert (action.verb, action.subresource) == ("get", "pendingworkloads")
        assert not action.namespace


class Soon:
    """Estimates the same start for every Workload."""

    async def find_start(self, key: str) -> dict[str, Any]:
        return {"at": "2026-01-01T00:00:00Z", "key": key}

    def add_calibration(self, start: Mapping[str, Any]) -> dict[str, Any]:
        return {**start, "calibration": f"for {start['key']}"}

    def list_calibrations(self) -> Iterator[dict[str, Any]]:
        yield from ()


async def ask(
    world: EngineWorld, user: str, path: str, *, method: str = "GET", leads: bool = False
) -> dict[str, Any]:
    known = {f"{NAMESPACE}/w": WORKLOAD}
    leading = asyncio.Event()
    if leads:
        leading.set()
    answers = ExplanationAnswers(
        world.engine,
        PositionReader(world.engine),
        known.get,
        leading,
        cast("RightsReviewer", Rights()),
        starts=Soon(),
    )
    request = cast("HttpRequest", make_mocked_request(method, path))
    response = await answers.answer(request, action_of(method, path), AuthenticatedUser(name=user))
    assert isinstance(response.body, bytes)
    told: dict[str, Any] = orjson.loads(response.body)
    return told


async def test_names_of_other_namespaces_are_for_those_who_may_see_the_whole_queue() -> None:
    world = past_usage_world()
    told = [(await ask(world, user, PATH))["status"]["pastUsage"] for user in ("admin", "ann")]
    assert [[row["localQueue"] for row in rows] for rows in told] == [
        ["other/lq", f"{NAMESPACE}/lq"],
        ["", f"{NAMESPACE}/lq"],
    ]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", PATH, 405),
        ("GET", PATH.replace("/w/", "/unknown/"), 404),
        ("GET", f"{PATH}/more", 404),
    ],
)
async def test_what_is_no_question_about_a_workload_is_refused(
    method: str, path: str, code: int
) -> None:
    with pytest.raises(StatusRefusal) as refused:
        await ask(full_world(), "admin", path, method=method)
    assert refused.value.code == code


async def test_only_the_leader_estimates_the_start() -> None:
    world = full_world()
    world.submit(make_workload("w", pod_sets=[pod_set(gpu=2)]))
    starts = [
        (await ask(world, "admin", PATH, leads=leads))["status"]["start"] for leads in (True, False)
    ]
    assert starts == [
        {
            "at": "2026-01-01T00:00:00Z",
            "key": f"{NAMESPACE}/w",
            "calibration": f"for {NAMESPACE}/w",
        },
        {
            "code": "NotLeading",
            "reason": "unknown: only the manager that leads estimates starts",
        },
    ]


async def test_who_is_protected_is_told_with_the_end() -> None:
    queue = make_cpu_queue("cq", 1, own=ANY)
    world = EngineWorld(replace(queue, disruption_policy="gentle"))
    protection = ProtectionRule(min_run={StopCause.QUEUE: 600})
    world.engine.upsert_disruption_policy(DisruptionRules(name="gentle", protection=protection))
    world.submit(make_workload("runs", pod_sets=[pod_set(cpu=1)]))
    world.write_back(world.cycle())
    world.submit(make_workload("waits", priority=1, pod_sets=[pod_set(cpu=1)]))
    world.cycle(after=1)

    told = await explain(world, "waits")

    assert told["preemption"]["refusal"] == (
        "1 of 1 candidate may not be stopped: 1 until 2026-01-01T00:10:00Z "
        '(DisruptionPolicy "gentle": minimum run 10m)'
    )
