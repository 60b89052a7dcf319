"""Profiles as the manager keeps them: what a change of one reaches, and who hears of decisions."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.api.config import load_configuration
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DispatchProfile
from multiqueue.dispatcher_host.canary import Trials
from multiqueue.dispatcher_host.choice import DispatcherChoice
from multiqueue.dispatcher_host.references import Reference
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.plugins import DispatchView, Nomination
from multiqueue.plugins.testing import T0, make_cluster, make_view

VIEW = make_view(clusters=[make_cluster("a"), make_cluster("b")])
GPU = Reference(profile="gpu", source='LocalQueue "team-a/gpus"')


class To:
    def __init__(self, name: str) -> None:
        self.name = name

    def nominate(self, view: DispatchView) -> Nomination:
        if self.name == "broken":
            raise RuntimeError("no")
        return Nomination(clusters=(self.name.removeprefix("to-"),))


class Profiles:
    """Takes the place of the informer."""

    def __init__(self) -> None:
        self.by_name: dict[str, DispatchProfile] = {}
        self.handlers: list[Callable[..., None]] = []
        self.store = SimpleNamespace(get=self.by_name.get)

    def add_handler(self, handler: Callable[..., None]) -> None:
        self.handlers.append(handler)

    def put(self, name: str, dispatcher: str, *, status: Any = None, **spec: Any) -> None:
        old = self.by_name.get(name)
        metadata = {"name": name, "generation": old.metadata.generation + 1 if old else 1}
        obj = {"metadata": metadata, "spec": {"dispatcher": dispatcher, **spec}}
        new = decode(DispatchProfile, {**obj, "status": status or {}})
        self.by_name[name] = new
        for handler in self.handlers:
            handler(old, new)

    def delete(self, name: str) -> None:
        old = self.by_name.pop(name)
        for handler in self.handlers:
            handler(old, None)


class DecisionSource:
    """A choice, and what was heard from it."""

    def __init__(self) -> None:
        self.profiles = Profiles()
        self.metrics = ManagerMetrics()
        self.changes = 0
        self.news: list[str] = []
        self.heard: list[tuple[str, str]] = []
        names = ("to-a", "to-b", "broken")
        self.choice = DispatcherChoice(
            Dispatchers({name: To(name) for name in names}, installed=()),
            load_configuration("multiKueue: {dispatcherName: to-a}"),
            self.metrics,
            now=lambda: T0,
            profiles=self.profiles,  # type: ignore[arg-type]
        )
        self.choice.on_change = self._on_change
        self.choice.on_news = self.news.append
        self.choice.add_listener(
            lambda _view, answer, profile: self.heard.append((profile, answer.dispatcher))
        )

    def _on_change(self) -> None:
        self.changes += 1

    async def ask(self, reference: Reference = GPU) -> str:
        answer = await self.choice.ask(reference, lambda: VIEW, lambda _view, _nomination: None)
        return answer.dispatcher if answer.nomination is not None else answer.problem

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            name, {**labels, "replica_role": "standalone"}
        )


@pytest.fixture
def decision_service() -> DecisionSource:
    return DecisionSource()


async def test_a_profile_is_found_as_soon_as_it_is_there_and_followed(
    decision_service: DecisionSource,
) -> None:
    problem = 'DispatchProfile "gpu" not found (LocalQueue "team-a/gpus": '
    assert (await decision_service.ask()).startswith(problem)
    decision_service.profiles.put("gpu", "to-a")
    assert await decision_service.ask() == "to-a"
    decision_service.profiles.put("gpu", "to-b")
    assert await decision_service.ask() == "to-b"
    decision_service.profiles.delete("gpu")
    assert (await decision_service.ask()).startswith(problem)
    assert decision_service.changes == 3


async def test_a_status_changes_nothing(decision_service: DecisionSource) -> None:
    decision_service.profiles.put("gpu", "to-a")
    await decision_service.ask()
    live = decision_service.choice.find_profile("gpu")
    decision_service.profiles.put("gpu", "to-a", status={"decisions": 3})
    assert decision_service.choice.find_profile("gpu") is live
    assert decision_service.changes == 1


async def test_a_change_reaches_the_profiles_that_refer_to_it(
    decision_service: DecisionSource,
) -> None:
    decision_service.profiles.put("next", "to-a")
    decision_service.profiles.put("gpu", "to-a", canary={"profile": "next", "percent": 100})
    await decision_service.ask()
    decision_service.profiles.put("next", "to-b")
    assert await decision_service.ask() == "to-b"


async def test_every_decision_is_told_with_its_profile(decision_service: DecisionSource) -> None:
    decision_service.profiles.put("gpu", "broken", fallback="to-b")
    await decision_service.ask()
    await decision_service.ask(Reference())
    assert decision_service.heard == [("gpu", "to-b"), ("", "to-a")]
    count = "multiqueue_dispatch_decisions_total"
    assert decision_service.value(count, profile="gpu", result="Fallback") == 1
    failures = "multiqueue_dispatch_failures_total"
    assert decision_service.value(failures, dispatcher="broken", reason="Raised") == 1


async def test_a_canary_that_returned_before_a_restart_stays_returned(
    decision_service: DecisionSource,
) -> None:
    condition = {
        "type": "Canary",
        "status": "False",
        "reason": "Returned",
        "message": "slow",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    canary = {"dispatcher": "to-b", "percent": 100}
    decision_service.profiles.put("gpu", "to-a", canary=canary, status={"conditions": [condition]})
    assert await decision_service.ask() == "to-a"
    decision_service.profiles.put(
        "gpu", "to-a", canary={"dispatcher": "to-b", "percent": 100, "limits": {}}
    )
    decision_service.profiles.put("gpu", "to-a", canary={**canary, "percent": 99})
    assert decision_service.choice.find_profile("gpu").returned == ""


async def test_a_canary_that_does_worse_returns_and_waiting_workloads_are_asked_about(
    decision_service: DecisionSource,
) -> None:
    limits = {"minWorkloads": 1}
    decision_service.profiles.put(
        "gpu", "to-a", canary={"dispatcher": "broken", "percent": 100, "limits": limits}
    )
    changes = decision_service.changes
    assert await decision_service.ask() == "to-a"
    assert decision_service.choice.find_profile("gpu").returned.startswith(
        "it failed for 1 of 1 Workloads"
    )
    assert (decision_service.changes, decision_service.news[-1]) == (changes + 1, "gpu")


async def test_starts_are_noted_for_the_canary_s_sake(decision_service: DecisionSource) -> None:
    decision_service.profiles.put("gpu", "to-a", canary={"dispatcher": "to-b", "percent": 100})
    await decision_service.ask()
    decision_service.choice.note(VIEW.workload.uid, Trials.note_start)
    decision_service.choice.note(VIEW.workload.uid, Trials.note_start)
    decision_service.choice.note("somebody else's", Trials.note_start)
    trials = decision_service.choice.find_profile("gpu").trials
    assert trials is not None
    assert [tally.started for tally in trials.tallies.values()] == [0, 1]


async def test_shadows_are_counted_and_forgotten_with_their_profile(
    decision_service: DecisionSource,
) -> None:
    decision_service.profiles.put("gpu", "to-a", shadow={"dispatcher": "to-b"})
    await decision_service.ask()
    await decision_service.choice.shadows.ask(decision_service.choice.shadows.queue.get_nowait())
    count = "multiqueue_dispatch_shadow_differences_total"
    assert decision_service.value(count, profile="gpu") == 1
    decision_service.profiles.delete("gpu")
    assert decision_service.value(count, profile="gpu") is None
