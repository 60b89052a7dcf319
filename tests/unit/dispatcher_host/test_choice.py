"""Which dispatcher decides, and what it is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from multiqueue_dispatchers.score import Score

from multiqueue.api.config import Configuration, load_configuration
from multiqueue.dispatcher_host.arguments import build_arguments
from multiqueue.dispatcher_host.choice import DispatcherChoice
from multiqueue.dispatcher_host.references import Reference
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.plugins import DispatchView, Nomination
from multiqueue.plugins.testing import T0, make_cluster, make_view

INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"


class Named:
    """Says its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def nominate(self, view: DispatchView) -> Nomination:
        return Nomination(note=self.name)


def make_choice(metrics: ManagerMetrics | None = None) -> DispatcherChoice:
    plugins = {name: Named(name) for name in ("one", "two")}
    return DispatcherChoice(
        Dispatchers({**plugins, "score": Score()}),
        config("dispatcherName: one"),
        metrics or ManagerMetrics(),
        now=lambda: T0,
    )


async def say(choice: DispatcherChoice, name: str) -> str:
    view = make_view(clusters=[make_cluster("a")])
    answer = await choice.ask(
        Reference(dispatcher=name), lambda: view, lambda _view, _nomination: None
    )
    return answer.nomination.note if answer.nomination is not None else answer.problem


def answered(metrics: ManagerMetrics) -> dict[str, float]:
    return {
        sample.labels["dispatcher"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "multiqueue_dispatch_duration_seconds_count"
    }


async def test_without_a_name_the_manager_s_own_decides():
    metrics = ManagerMetrics()
    choice = make_choice(metrics)
    assert [await say(choice, name) for name in ("", "two", "one")] == ["one", "two", "one"]
    assert answered(metrics) == {"one": 2, "two": 1}


async def test_a_name_that_nobody_has_answers_why():
    problem = await say(make_choice(), "three")
    assert problem.startswith('dispatcher "three" is not installed; installed are: ')
    assert "multiqueue.dev/dispatcher" in problem


async def test_all_that_are_outside_have_one_name_in_metrics():
    metrics = ManagerMetrics()
    said = await say(make_choice(metrics), "example.com/theirs")
    assert said == 'the controller of dispatcher "example.com/theirs" nominates clusters'
    assert answered(metrics) == {"external": 1}


async def test_who_asks_when_all_is_over_does_not_wait_for_ever():
    choice = make_choice()
    assert await say(choice, "one") == "one"
    running = asyncio.create_task(choice.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    assert await say(choice, "one") == "the manager ends"


async def test_an_answer_is_taken_in_before_the_next_question():
    """A burst of Workloads must not see the same room twice."""
    choice = make_choice()
    taken: list[str] = []
    view = make_view(clusters=[make_cluster("a")])

    def look() -> DispatchView:
        taken.append("view")
        return view

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(choice.ask(Reference(), look, lambda _v, n: taken.append(n.note)))
    assert taken == ["view", "one"] * 3


def config(section: str = "", gates: str = "") -> Configuration:
    return load_configuration(f"multiKueue: {{{section}}}\nfeatureGates: {{{gates}}}")


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        (config(), {}),
        (config("dispatcherArguments: {stepSize: 7}"), {"stepSize": 7}),
        (
            config("dispatcherName: incremental, incrementalDispatcherConfig: {stepSize: 5}"),
            {"stepSize": 5},
        ),
        (
            config(
                "dispatcherName: incremental, incrementalDispatcherConfig: {stepSize: 5}",
                "MultiKueueIncrementalDispatcherConfig: false",
            ),
            {},
        ),
        (
            config(gates="MultiKueueIncrementalDispatcherRespectConfigOrder: false"),
            {"order": "Name"},
        ),
    ],
)
def test_the_incremental_one_is_told_its_section_and_gates(
    settings: Configuration, want: dict[str, Any]
) -> None:
    """T-378, T-379."""
    assert build_arguments(settings, "incremental") == want
    assert build_arguments(settings, INCREMENTAL) == want
    assert build_arguments(settings, "score") == dict(settings.multi_kueue.dispatcher_arguments)
