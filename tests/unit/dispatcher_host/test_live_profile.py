"""A profile at work: who is asked, who steps in, who is asked beside; and what it says of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from multiqueue.api.conditions import ACTIVE, CANARY, HEALTHY, find_condition
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1alpha1 import DispatchProfile
from multiqueue.dispatcher_host.answer import Answer
from multiqueue.dispatcher_host.live_profile import LiveProfile
from multiqueue.dispatcher_host.policy import DispatcherSetting, build_policy
from multiqueue.dispatcher_host.profile_conditions import (
    build_status,
    find_news,
    why_returned,
)
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.dispatcher_host.runner import DispatchRunner
from multiqueue.dispatcher_host.shadow import (
    MOST_WAITING,
    ShadowFigures,
    ShadowQuestion,
    Shadows,
    find_difference,
)
from multiqueue.dispatcher_host.turns import Turns
from multiqueue.plugins import DispatchView, Nomination
from multiqueue.plugins.testing import T0, make_cluster, make_view

VIEW = make_view(clusters=[make_cluster("a"), make_cluster("b")])


class Plugin:
    def __init__(self, name: str, nominate: Callable[[DispatchView], Any]) -> None:
        self.name = name
        self.nominate = nominate


def fail(_: DispatchView) -> Nomination:
    raise RuntimeError("no")


FAILED = f"failed: RuntimeError: no (test_live_profile.py, line {fail.__code__.co_firstlineno + 1})"

PLUGINS = (
    Plugin("to-a", lambda _: Nomination(clusters=("a",), note="hello")),
    Plugin("to-b", lambda _: Nomination(clusters=("b",))),
    Plugin("moon", lambda _: Nomination(clusters=("moon", "a"))),
    Plugin("broken", fail),
)


def make_profile(dispatcher: str, **spec: Any) -> DispatchProfile:
    obj = {"metadata": {"name": "gpu", "generation": 2}, "spec": {"dispatcher": dispatcher, **spec}}
    return decode(DispatchProfile, obj)


def open_profile(profile: DispatchProfile, *, returned: str = "") -> LiveProfile:
    dispatchers = Dispatchers({plugin.name: plugin for plugin in PLUGINS}, installed=())

    def open_runner(way: DispatcherSetting) -> DispatchRunner:
        return DispatchRunner(
            way, lambda: dispatchers.select(way.dispatcher, outside=False), now=lambda: T0
        )

    policy = build_policy(profile, lambda _: None, lambda _: {})
    return LiveProfile(policy, open_runner, turns=Turns(), now=lambda: T0, returned=returned)


async def ask_whole(live: LiveProfile) -> tuple[DispatchView, Answer]:
    got = await live.ask(lambda: VIEW, lambda _view, _nomination: None)
    assert got is not None
    return got


async def ask(live: LiveProfile) -> Answer:
    return (await ask_whole(live))[1]


async def test_whoever_answers_is_said_and_what_it_was_shown() -> None:
    live = open_profile(make_profile("to-a", arguments={"x": 1}))
    shown, answer = await ask_whole(live)
    assert (answer.dispatcher, shown.dispatcher, shown.arguments) == ("to-a", "to-a", {"x": 1})


async def test_the_fallback_says_why_it_was_asked_and_that_the_other_one_is_asked_again() -> None:
    answer = await ask(open_profile(make_profile("broken", fallback="to-a")))
    assert (answer.dispatcher, answer.instead_of) == ("to-a", "broken")
    assert answer.nomination == Nomination(
        clusters=("a",),
        note=f'hello; dispatcher "broken" {FAILED}; "to-a" decides meanwhile',
        ask_again_at=T0 + timedelta(seconds=10),
    )


async def test_a_profile_that_cannot_be_used_has_its_fallback_too() -> None:
    answer = await ask(open_profile(make_profile("to-b", timeBudget="1h", fallback="to-a")))
    assert answer.nomination is not None
    assert answer.nomination.clusters == ("a",)
    assert "spec.timeBudget: 1h is more than 10s" in answer.nomination.note


async def test_where_the_fallback_fails_too_both_are_told() -> None:
    answer = await ask(open_profile(make_profile("missing", fallback="broken")))
    assert answer.nomination is None
    assert answer.problem.startswith('DispatchProfile "gpu": spec.dispatcher: dispatcher "missing"')
    assert answer.problem.endswith(f'its fallback: dispatcher "broken" {FAILED}')


async def test_a_canary_decides_for_its_part_until_it_returned() -> None:
    profile = make_profile("to-a", canary={"dispatcher": "to-b", "percent": 100})
    assert (await ask(open_profile(profile))).dispatcher == "to-b"
    assert (await ask(open_profile(profile, returned="slow"))).dispatcher == "to-a"


async def test_where_a_canary_fails_the_base_decides() -> None:
    live = open_profile(make_profile("to-a", canary={"dispatcher": "broken", "percent": 100}))
    assert (await ask(live)).dispatcher == "to-a"
    assert live.figures.failures == 1
    assert live.trials is not None
    live.trials.note_start(VIEW.workload.uid, T0)
    started = {side: tally.started for side, tally in live.trials.tallies.items()}
    assert set(started.values()) == {0}, "a start that the base earned says nothing of the canary"


async def test_one_that_was_replaced_decides_no_more() -> None:
    live = open_profile(make_profile("to-a"))
    await ask(live)
    live.close()
    assert await live.ask(lambda: VIEW, lambda _view, _nomination: None) is None
    assert live.base is not None
    assert (await live.base.ask(VIEW)).problem == "the profile was changed"


# ------------------------------------------------------------ shadows


@pytest.mark.parametrize(
    ("decided", "shadow", "want"),
    [
        (Nomination(clusters=("a", "b")), Nomination(clusters=("b", "a")), ""),
        (Nomination(clusters=("a",)), Nomination(clusters=("b",)), "a, the shadow: b"),
        (Nomination(clusters=("a",)), Nomination(), "a, the shadow: nowhere"),
        (Nomination(), Nomination(refusal="no"), "nowhere, the shadow: refused"),
        (Nomination(external=True), Nomination(external=True), ""),
        (Nomination(external=True), Nomination(), "one leaves it to a controller"),
    ],
)
def test_what_makes_a_difference(decided: Nomination, shadow: Nomination, want: str) -> None:
    assert find_difference(decided, shadow) == want


async def test_a_shadow_that_cannot_keep_up_is_asked_about_less() -> None:
    live = open_profile(make_profile("to-a", shadow={"dispatcher": "to-b"}))
    assert live.shadow is not None
    figures = ShadowFigures()
    shadows = Shadows()
    question = ShadowQuestion("gpu", live.shadow, figures, VIEW, Nomination())
    for _ in range(MOST_WAITING + 3):
        shadows.put(question)
    assert figures.skipped == 3
    await shadows.ask(question)
    assert (figures.decisions, figures.differences) == (1, 1)
    assert figures.last_difference == "team-a/train: nowhere, the shadow: b"
    live.shadow_figures = replace(figures, last_difference="x" * 2000)
    told = build_status(make_profile("to-a"), live, T0).shadow
    assert told is not None
    assert told.last_difference == "x" * 1024, "the CRD allows no more"


# ------------------------------------------------------------ what it says of itself


async def conditions_of(
    profile: DispatchProfile, **options: Any
) -> dict[str, tuple[str, str, str]]:
    live = open_profile(profile, **options)
    await ask(live)
    status = build_status(profile, live, T0)
    assert all(condition.observed_generation == 2 for condition in status.conditions)
    return {c.type: (c.status, c.reason, c.message) for c in status.conditions}


async def test_one_that_works_is_active_and_healthy() -> None:
    assert await conditions_of(make_profile("to-a")) == {
        ACTIVE: ("True", "Ready", 'dispatcher "to-a" decides'),
        HEALTHY: ("True", "AsPromised", "no promise of a dispatcher was found broken"),
    }


async def test_arguments_that_nobody_checks_are_told() -> None:
    got = await conditions_of(make_profile("to-a", filters=["healthy"], arguments={"colour": 1}))
    words = 'dispatcher "to-a" decides; it does not check arguments, so nobody can say whether it '
    assert got[ACTIVE] == ("True", "Ready", f"{words}heeds colour, filters")


async def test_one_that_fails_says_who_decides_or_that_its_workloads_wait() -> None:
    words = f'dispatcher "broken" {FAILED}'
    got = await conditions_of(make_profile("broken"))
    assert got[ACTIVE] == ("False", "Failing", f"{words}; its Workloads wait")
    got = await conditions_of(make_profile("broken", fallback="to-a"))
    assert got[ACTIVE] == ("False", "Failing", f'{words}; "to-a" decides meanwhile')


async def test_broken_promises_and_sides_are_told() -> None:
    got = await conditions_of(make_profile("moon"))
    words = 'dispatcher "moon" named "moon", which is no cluster of the check'
    assert got[HEALTHY] == ("False", "PromisesBroken", words)
    got = await conditions_of(make_profile("to-a", shadow={"profile": "x"}))
    words = 'spec.shadow.profile: DispatchProfile "x" not found'
    assert got[HEALTHY] == ("False", "SideFailing", words)


async def test_a_canary_has_a_condition_of_its_own() -> None:
    canary = {"dispatcher": "to-b", "percent": 10}
    got = await conditions_of(make_profile("to-a", canary=canary))
    assert got[CANARY] == ("True", "Running", '"to-b" decides for 10 % of the Workloads')
    got = await conditions_of(make_profile("to-a", canary=canary), returned="it is slow")
    assert got[CANARY] == ("False", "Returned", "it is slow")
    got = await conditions_of(make_profile("to-a", canary={"dispatcher": "no", "percent": 10}))
    assert got[CANARY][:2] == ("False", "Broken")
    assert got[CANARY][2].startswith('spec.canary.dispatcher: dispatcher "no" is not installed')


async def test_a_return_is_remembered_for_its_generation() -> None:
    profile = make_profile("to-a", canary={"dispatcher": "to-b", "percent": 10})
    live = open_profile(profile, returned="it is slow")
    status = encode(build_status(profile, live, T0))
    stored = {**encode(profile), "status": status}
    assert why_returned(decode(DispatchProfile, stored)) == "it is slow"
    stored["metadata"]["generation"] = 3
    assert why_returned(decode(DispatchProfile, stored)) == ""


async def test_events_tell_of_what_changed_and_of_what_begins_badly() -> None:
    profile = make_profile("broken", canary={"dispatcher": "to-b", "percent": 0})
    live = open_profile(profile)
    await ask(live)
    status = build_status(profile, live, T0)
    told = [(c.type, bad) for c, bad in find_news((), status.conditions)]
    assert told == [(ACTIVE, True)]
    assert list(find_news(status.conditions, status.conditions)) == []
    live.returned = "slow"
    after = build_status(profile, live, T0)
    told = [(c.type, bad) for c, bad in find_news(status.conditions, after.conditions)]
    assert told == [(CANARY, True)]
    assert find_condition(after.conditions, CANARY) is not None
