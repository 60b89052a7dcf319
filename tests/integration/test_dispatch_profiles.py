"""DispatchProfiles in a running manager: who decides, at once, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from multiqueue.api.conditions import find_condition
from multiqueue.api.names import DISPATCH_PROFILE, DISPATCHER, V1ALPHA1
from multiqueue.api.v1alpha1 import DispatchProfile
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    DISPATCH_PROFILES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from multiqueue.plugins import DispatchView, Nomination
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.dispatcher_package import install
from tests.integration.waiting import until
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time
from tests.waiting import Changes


@dataclass
class To:
    """Nominates one cluster, and remembers what it was told."""

    cluster: str
    name: str = "to"
    told: list[dict[str, Any]] = field(default_factory=list)

    def nominate(self, view: DispatchView) -> Nomination:
        self.told.append(dict(view.arguments))
        return Nomination(clusters=(self.cluster,))

    def check_arguments(self, arguments: dict[str, Any]) -> list[str]:
        return [f"argument {n}: there is no such argument" for n in arguments if n == "typo"]


def make_profile(name: str, dispatcher: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": V1ALPHA1,
        "kind": "DispatchProfile",
        "metadata": {"name": name},
        "spec": {"dispatcher": dispatcher, **spec},
    }


class Profiles:
    """What people do with profiles in a world."""

    def __init__(self, world: MultiKueueWorld, context: ManagerContext) -> None:
        self.world = world
        self.context = context
        self.changes = Changes(world.hub.informers.dispatch_profiles)

    async def create(self, name: str, dispatcher: str, **spec: Any) -> None:
        await self.world.hub.create(DISPATCH_PROFILES, make_profile(name, dispatcher, **spec))

    async def change(self, name: str, **spec: Any) -> None:
        await self.world.hub.patch(DISPATCH_PROFILES, name, {"spec": spec})

    async def name_it(self, profile: str | None, on: Any = LOCAL_QUEUES) -> None:
        """Annotate the LocalQueue, the ClusterQueue or the MultiKueueConfig."""
        name = {LOCAL_QUEUES: "lq", CLUSTER_QUEUES: "cq", MULTIKUEUE_CONFIGS: "fleet"}[on]
        await self.world.hub.patch(
            on,
            name,
            {"metadata": {"annotations": {DISPATCH_PROFILE: profile}}},
            namespace=NAMESPACE if on.namespaced else None,
        )

    def get(self, name: str) -> DispatchProfile:
        found = self.world.hub.informers.dispatch_profiles.store.get(name)
        assert found is not None
        return found

    def condition(self, name: str, type_: str) -> tuple[str, str, str]:
        profile = self.world.hub.informers.dispatch_profiles.store.get(name)
        found = find_condition(profile.status.conditions, type_) if profile is not None else None
        return (found.status, found.reason, found.message) if found is not None else ("", "", "")

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        return await self.changes.until(condition, what)

    async def until_nominated(self, *clusters: str, job: str = "train") -> None:
        def nominated() -> bool:
            workload = self.world.workload(job)
            return workload is not None and workload.status.nominated_cluster_names == clusters

        await self.world.until(nominated, f"{job} nominated to {clusters}")

    async def submit(self, job: str = "train") -> None:
        await self.world.hub.create(JOBS, make_gpu_job(job))

    async def until_told(self, words: str, job: str = "train") -> str:
        await self.world.until(lambda: words in self.world.check(job)[1], f"told: {words}")
        return self.world.check(job)[1]


@asynccontextmanager
async def fleet(*dispatchers: Any, **config: Any) -> AsyncIterator[Profiles]:
    """Two workers that nobody admits anything on, and a manager."""
    plugins = {each.name: each for each in dispatchers}
    settings = {"dispatcher_name": "all-at-once", **config}
    async with (
        multikueue_world("a", "b") as world,
        world.manager(make_config(**settings), dispatchers=plugins) as context,
    ):
        await world.until_connected()
        yield Profiles(world, context)


async def test_each_change_of_profiles_and_of_who_names_them_counts_at_once():
    """The LocalQueue before the ClusterQueue before the MultiKueueConfig before the manager."""
    to_a, to_b = To("a", "to-a"), To("b", "to-b")
    async with fleet(to_a, to_b, dispatch_profile="own") as profiles:
        await profiles.create("own", "all-at-once")
        await profiles.create(
            "one",
            "to-a",
            filters=["free"],
            scorers=[{"name": "price", "weight": 3}],
            arguments={"colour": "blue"},
        )
        await profiles.create("two", "to-b")
        await profiles.submit()
        await profiles.until_nominated("a", "b")
        await profiles.world.hub.patch(
            MULTIKUEUE_CONFIGS, "fleet", {"metadata": {"annotations": {DISPATCHER: "to-b"}}}
        )
        await profiles.until_nominated("b")
        await profiles.name_it("one", on=MULTIKUEUE_CONFIGS)
        await profiles.until_nominated("a")
        assert to_a.told[-1] == {"colour": "blue", "filters": ["free"], "scorers": {"price": 3}}
        await profiles.name_it("two", on=CLUSTER_QUEUES)
        await profiles.until_nominated("b")
        await profiles.name_it("one", on=LOCAL_QUEUES)
        await profiles.until_nominated("a")
        await profiles.change("one", dispatcher="to-b")
        await profiles.until_nominated("b")


async def test_what_is_wrong_is_said_on_the_profile_and_its_workloads_wait():
    async with fleet(To("a")) as profiles:
        await profiles.name_it("gpu")
        await profiles.submit()
        told = await profiles.until_told("not found")
        assert 'DispatchProfile "gpu" not found (LocalQueue "team-a/lq"' in told
        for spec, want in (
            ({"dispatcher": "mine"}, 'spec.dispatcher: dispatcher "mine" is not installed'),
            (
                {"dispatcher": "to", "arguments": {"typo": 1}},
                'spec.arguments: dispatcher "to": argument typo: there is no such argument',
            ),
            (
                {"dispatcher": "score", "arguments": None, "filters": ["fast"]},
                'spec.filters: dispatcher "score": argument filters: ',
            ),
            (
                {"dispatcher": "to", "filters": None, "timeBudget": "1h"},
                "spec.timeBudget: 1h is more than 10s",
            ),
        ):
            if "dispatcher" in spec and spec["dispatcher"] == "mine":
                await profiles.create("gpu", "mine")
            else:
                await profiles.change("gpu", **spec)
            await profiles.until(
                lambda want=want: want in profiles.condition("gpu", "Active")[2], want
            )
            assert profiles.condition("gpu", "Active")[:2] == ("False", "Invalid")
            assert 'DispatchProfile "gpu": ' in await profiles.until_told(want)
        await profiles.change("gpu", timeBudget="2s")
        await profiles.until_nominated("a")
        await profiles.until(
            lambda: (
                profiles.condition("gpu", "Active") == ("True", "Ready", 'dispatcher "to" decides')
            ),
            "active",
        )


async def test_the_fallback_decides_while_the_dispatcher_fails():
    class Broken:
        name = "broken"
        is_mended = False

        def nominate(self, view: DispatchView) -> Nomination:
            if not self.is_mended:
                raise RuntimeError("no")
            return Nomination(clusters=("b",))

    broken = Broken()
    async with fleet(broken, To("a")) as profiles:
        await profiles.create("gpu", "broken", fallback="to")
        await profiles.name_it("gpu", on=CLUSTER_QUEUES)
        await profiles.submit()
        await profiles.until_nominated("a")
        told = await profiles.until_told("decides meanwhile")
        place = f"test_dispatch_profiles.py, line {Broken.nominate.__code__.co_firstlineno + 2}"
        words = f'dispatcher "broken" failed: RuntimeError: no ({place}); "to" decides meanwhile'
        assert words in told
        await profiles.until(
            lambda: profiles.get("gpu").status.fallbacks and profiles.get("gpu").status.failures,
            "figures",
        )
        active = profiles.condition("gpu", "Active")
        assert active[:2] == ("False", "Failing")
        assert active[2].endswith('"to" decides meanwhile')
        broken.is_mended = True
        await profiles.change("gpu", timeBudget="2s")
        await profiles.until_nominated("b")


async def test_a_shadow_is_asked_and_nothing_of_it_is_done():
    async with fleet(To("a", "to-a"), To("b", "to-b")) as profiles:
        await profiles.create("gpu", "to-a", shadow={"dispatcher": "to-b", "arguments": {"x": 1}})
        await profiles.name_it("gpu", on=MULTIKUEUE_CONFIGS)
        await profiles.submit()
        await profiles.until_nominated("a")

        def shadow() -> Any:
            return profiles.get("gpu").status.shadow

        await profiles.change("gpu", timeBudget="3s")  # its figures begin anew
        await profiles.until(lambda: shadow() is not None and shadow().differences, "a difference")
        assert shadow().decisions == shadow().differences  # however often it was asked about
        assert shadow().last_difference.endswith(": a, the shadow: b")
        assert profiles.world.workload().status.nominated_cluster_names == ("a",)


async def test_a_canary_that_fails_returns_and_stays_returned_until_the_profile_changes():
    class Never:
        name = "never"

        def nominate(self, view: DispatchView) -> Nomination:
            raise RuntimeError("no")

    async with fleet(Never(), To("a")) as profiles:
        limits = {"minWorkloads": 2}
        await profiles.create(
            "gpu", "to", canary={"dispatcher": "never", "percent": 100, "limits": limits}
        )
        await profiles.name_it("gpu")
        for job in ("one", "two"):
            await profiles.submit(job)
            await profiles.until_nominated("a", job=job)
        await profiles.until(
            lambda: profiles.condition("gpu", "Canary")[1] == "Returned", "returned"
        )
        words = "it failed for 2 of 2 Workloads, the base for 0 of 0; the last time: "
        place = f"test_dispatch_profiles.py, line {Never.nominate.__code__.co_firstlineno + 1}"
        words += f'dispatcher "never" failed: RuntimeError: no ({place})'
        assert profiles.condition("gpu", "Canary") == ("False", "Returned", words)
        canary = profiles.get("gpu").status.canary
        assert (canary.state, canary.canary.failures) == ("Returned", 2)
        # It is written after the status.
        await until(
            profiles.world.hub.client,
            EVENTS,
            lambda events: any(each["reason"] == "CanaryReturned" for each in events),
        )
        await profiles.change("gpu", canary={"percent": 50})
        await profiles.until(
            lambda: profiles.condition("gpu", "Canary")[:2] == ("True", "Running"), "running again"
        )


@virtual_time
async def test_a_canary_whose_workloads_do_not_stay_where_they_start_returns():
    async with fleet(To("a", name="to-a"), To("b", name="to-b")) as profiles:
        world, limits = profiles.world, {"minWorkloads": 1, "failurePercent": 10}
        canary = {"dispatcher": "to-b", "percent": 50, "limits": limits}
        await profiles.create("gpu", "to-a", canary=canary)
        await profiles.name_it("gpu")
        sides: dict[str, str] = {}
        while len(set(sides.values())) < 2:  # its uid says on which side each is
            job = f"job-{len(sides)}"
            await profiles.submit(job)
            await world.until(
                lambda job=job: (w := world.workload(job)) and w.status.nominated_cluster_names,
                "nominated",
            )
            (sides[job],) = world.workload(job).status.nominated_cluster_names
            await world.admit(sides[job], job)
            await world.until_ready(job)
        assert profiles.condition("gpu", "Canary")[1] == "Running"
        job = next(job for job, side in sides.items() if side == "b")
        await world.evict("b", job)
        await profiles.until(
            lambda: profiles.condition("gpu", "Canary")[1] == "Returned", "returned"
        )
        assert (
            "started Workloads lost their cluster again, 0 of"
            in (profiles.condition("gpu", "Canary")[2])
        )


PACKAGE = """
from multiqueue.plugins import DispatchView, Nomination


class LastByName:
    name = "example.com/last"

    def nominate(self, view: DispatchView) -> Nomination:
        usable = sorted(c.name for c in view.clusters if not c.unusable)
        return Nomination(clusters=tuple(usable[-1:]))
"""


async def test_what_is_deleted_while_a_canary_is_asked_about_it_is_forgotten():
    asked, answer = Event(), Event()

    class Slow(To):
        def nominate(self, view: DispatchView) -> Nomination:
            asked.set()
            answer.wait(5)
            return super().nominate(view)

    async with fleet(Slow("a", "slow")) as profiles:
        world = profiles.world
        canary = {"dispatcher": "slow", "percent": 100}
        await profiles.create("one", "all-at-once", timeBudget="5s", canary=canary)
        await profiles.name_it("one")
        await profiles.submit()
        await asyncio.to_thread(asked.wait, 5)
        gone = world.workload()
        assert gone is not None
        await world.hub.client.delete(JOBS, "train", namespace=NAMESPACE)
        await world.hub.client.delete(WORKLOADS, gone.metadata.name, namespace=NAMESPACE)
        known = profiles.context.informers.workloads
        await Changes(known).until(lambda: known.store.get(gone.metadata.key) is None, "its end")
        answer.set()
        choice = world.multikueue.dispatchers
        live = choice.find_profile("one")
        await profiles.until(lambda: live.figures.decisions, "a decision")
        assert choice.trials == {}
        assert live.trials is not None
        assert not live.trials.follows(gone.metadata.uid)


async def test_a_package_that_is_installed_meanwhile_is_found_when_a_profile_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    async with fleet() as profiles:
        await profiles.submit()
        await profiles.until_nominated("a", "b")
        install(tmp_path, "profile_last_by_name", PACKAGE, {"example.com/last": "LastByName"})
        await profiles.create("mine", "example.com/last")
        await profiles.name_it("mine")
        await profiles.until_nominated("b")


EXITS = """
import os


class Exits:
    name = "example.com/exits"

    def nominate(self, view):
        os._exit(3)
"""


async def test_one_that_ends_its_process_harms_nobody_and_its_fallback_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "profile_exits", EXITS, {"example.com/exits": "Exits"})
    monkeypatch.syspath_prepend(str(tmp_path))
    words = 'dispatcher "example.com/exits" ended its process with status 3'
    async with fleet() as profiles:
        await profiles.create("mine", "example.com/exits")
        await profiles.name_it("mine")
        await profiles.submit()
        await profiles.until_told(f'DispatchProfile "mine": {words}')
        assert profiles.world.check("train")[0] == "Pending"
        await profiles.change("mine", fallback="all-at-once")
        await profiles.until_nominated("a", "b")
        told = await profiles.until_told(words)
        assert '"all-at-once" decides meanwhile' in told
