"""What plugins do wrong beside hanging: they lie, leak, tidy up in the view, and end programs."""

from __future__ import annotations

import copy
import dataclasses
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from multiqueue.dispatcher_host.answer import MAX_TEXT, Failure, hold_against, take
from multiqueue.dispatcher_host.conduct import EVERY, Misconduct
from multiqueue.dispatcher_host.frozen import FrozenDict, freeze
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Selection
from multiqueue.dispatcher_host.runner import LOADING_RETRY, DispatchRunner, Listeners
from multiqueue.plugins import ClusterVerdict, DispatchView, Nomination
from multiqueue.plugins.kept import MOST_KEPT, count_kept
from multiqueue.plugins.testing import T0, make_cluster, make_view

VIEW = make_view(
    clusters=[make_cluster("a", labels={"gpu": "a100"}), make_cluster("b")],
    arguments={"weights": {"a": 1}, "order": ["x"]},
)


class Plugin:
    name = "plugin"

    def __init__(self, nominate: Callable[[DispatchView], Any]) -> None:
        self.nominate = nominate


class Told:
    """What was told about a dispatcher."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.misconduct: list[Misconduct] = []

    def listeners(self) -> Listeners:
        return Listeners(
            on_failure=lambda _name, failure: self.failures.append(failure),
            on_finding=lambda _name, finding: self.misconduct.append(finding.kind),
        )


def make_runner(nominate: Callable[[DispatchView], Any], told: Told | None = None) -> Any:
    selection = Selection(name="plugin", dispatcher=Plugin(nominate))
    way = DispatcherSetting(
        dispatcher="plugin", budget=timedelta(seconds=5), arguments=VIEW.arguments
    )
    listeners = told.listeners() if told is not None else None
    return DispatchRunner(way, lambda: selection, now=lambda: T0, listeners=listeners)


async def ask(runner: DispatchRunner) -> Any:
    await runner.prepare()
    return await runner.ask(VIEW)


# ------------------------------------------------------------ the view


def put_label(view: DispatchView) -> None:
    view.clusters[0].queue.flavors["gpu"].node_labels["gpu"] = "h100"


def drop_cluster_label(view: DispatchView) -> None:
    view.clusters[0].labels.clear()


def put_argument(view: DispatchView) -> None:
    view.arguments["weights"]["a"] = 2


@pytest.mark.parametrize("change", [put_label, drop_cluster_label, put_argument])
async def test_the_view_cannot_be_changed(change: Callable[[DispatchView], None]) -> None:
    before = copy.deepcopy(VIEW)
    runner = make_runner(lambda view: change(view) or Nomination())
    got = await ask(runner)
    assert "TypeError: the view of a dispatcher cannot be changed" in got.problem
    assert before == VIEW


async def test_lists_of_arguments_are_copies() -> None:
    runner = make_runner(lambda view: view.arguments["order"].append("y") or Nomination())
    assert (await ask(runner)).problem == ""
    assert VIEW.arguments["order"] == ["x"]


def test_a_frozen_view_is_read_copied_and_written_like_any_other() -> None:
    frozen = freeze(VIEW)
    assert frozen == VIEW
    assert isinstance(frozen.arguments, dict)
    mine = copy.deepcopy(frozen)
    mine.arguments["weights"]["a"] = 2
    assert json.loads(json.dumps(frozen.arguments)) == VIEW.arguments
    assert dataclasses.asdict(frozen)["arguments"] == VIEW.arguments
    with pytest.raises(TypeError):
        hash(FrozenDict())
    for change in (
        lambda d: d.update(a=1),
        lambda d: d.pop("a"),
        lambda d: d.setdefault("b", 1),
        lambda d: d.__ior__({"b": 1}),
        lambda d: d.__delitem__("a"),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change(FrozenDict(a=1))


# ------------------------------------------------------------ answers


class Loud(str):
    """A text whose methods raise."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            Nomination(verdicts=(ClusterVerdict(cluster="a", nominated="yes"),)),
            "nominated is 'yes'",
        ),
        (Nomination(verdicts=(ClusterVerdict(cluster=1, nominated=True),)), "verdicts[0].cluster"),
        (
            Nomination(verdicts=(ClusterVerdict(cluster="a", nominated=True, score=1.5),)),
            "verdicts[0].score is 1.5, no int",
        ),
        (
            Nomination(verdicts=(ClusterVerdict(cluster="a", nominated=True, terms=("x",)),)),
            "verdicts[0].terms[0] is 'x', no ScoreTerm",
        ),
        (Nomination(external=1), "external is 1, no bool"),
        (Nomination(clusters="ab"), "clusters is 'ab', no tuple"),
    ],
)
def test_wrong_types_deep_inside_are_found(answer: Nomination, words: str) -> None:
    assert words in hold_against(take(answer), VIEW, "plugin").malformed


def test_what_is_read_is_of_exactly_the_types_that_are_promised() -> None:
    zone = timezone(timedelta(hours=2))
    at = datetime(2026, 1, 1, 15, tzinfo=zone)
    got = hold_against(take(Nomination(clusters=(Loud("a"),), ask_again_at=at)), VIEW, "plugin")
    assert got.nomination is not None
    assert got.nomination.clusters == ("a",)
    assert type(got.nomination.clusters[0]) is str
    assert got.nomination.ask_again_at == at
    assert got.nomination.ask_again_at.tzinfo is UTC


def test_numbers_and_texts_that_cannot_be_written_are_not_taken() -> None:
    verdict = ClusterVerdict(cluster="a", nominated=True, score=2**63)
    got = hold_against(take(Nomination(clusters=("a",), verdicts=(verdict,))), VIEW, "plugin")
    assert got.malformed == "verdicts[0].score is 9223372036854775808, more than 64 bits hold"
    broken = hold_against(take(Nomination(note="\ud800 \u00e9")), VIEW, "plugin").nomination
    assert broken is not None
    assert broken.note == "? \u00e9"


def test_texts_are_cut() -> None:
    got = hold_against(take(Nomination(note="x" * 10_000)), VIEW, "plugin").nomination
    assert got is not None
    assert len(got.note) == MAX_TEXT


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def forever(depth: int = 0) -> int:
    return forever(depth + 1)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UnspeakableError(), "UnspeakableError (its text cannot be shown)"),
        (SystemExit(3), "SystemExit: 3 (test_fence.py, line {line})"),
        (GeneratorExit(), "GeneratorExit (test_fence.py, line {line})"),
    ],
)
async def test_whatever_is_raised_is_told(error: BaseException, words: str) -> None:
    def nominate(_: DispatchView) -> Nomination:
        raise error

    told, line = Told(), nominate.__code__.co_firstlineno + 1
    got = await ask(make_runner(nominate, told))
    assert got.problem == f'dispatcher "plugin" failed: {words.format(line=line)}'
    assert told.failures == [Failure.RAISED]


async def test_endless_recursion_is_an_error_like_others() -> None:
    got = await ask(make_runner(lambda _: forever()))
    assert 'dispatcher "plugin" failed: RecursionError' in got.problem


# ------------------------------------------------------------ conduct


async def test_other_answers_to_the_same_view_are_found_now_and_then() -> None:
    count = iter(range(10_000))
    told = Told()
    runner = make_runner(lambda _: Nomination(clusters=("ab"[next(count) % 2],)), told)
    answers = [await ask(runner) for _ in range(EVERY + 1)]
    assert all(answer.nomination is not None for answer in answers)
    assert told.misconduct == [Misconduct.UNSTEADY] * 2
    assert runner.findings[Misconduct.UNSTEADY].words == "answered otherwise to the same view"


async def test_names_of_unknown_clusters_are_counted() -> None:
    told = Told()
    await ask(make_runner(lambda _: Nomination(clusters=("moon",)), told))
    assert told.misconduct == [Misconduct.UNKNOWN_CLUSTER]


async def test_threads_that_stay_are_found() -> None:
    done = threading.Event()

    def nominate(_: DispatchView) -> Nomination:
        threading.Thread(target=done.wait, args=(30,), daemon=True).start()
        return Nomination()

    told = Told()
    runner = make_runner(nominate, told)
    await ask(runner)
    done.set()
    assert told.misconduct == [Misconduct.STARTS_THREADS]
    assert runner.findings[Misconduct.STARTS_THREADS].words == "left 1 thread running"


async def test_what_keeps_more_and_more_is_found() -> None:
    class Hoarder:
        name = "hoarder"

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def nominate(self, view: DispatchView) -> Nomination:
            self.seen.extend((object(), view.workload.key) for _ in range(MOST_KEPT))
            return Nomination()

    told = Told()
    selection = Selection(name="hoarder", dispatcher=Hoarder())
    runner = DispatchRunner(
        DispatcherSetting(dispatcher="hoarder"),
        lambda: selection,
        now=lambda: T0,
        listeners=told.listeners(),
    )
    await ask(runner)
    assert told.misconduct == [Misconduct.KEEPS_OBJECTS]


def test_what_is_kept_is_counted_without_going_round_in_circles() -> None:
    plugin = Plugin(lambda _: Nomination())
    plugin.table = {"a": [1, 2]}  # type: ignore[attr-defined]
    plugin.me = plugin  # type: ignore[attr-defined]
    assert 4 <= count_kept(plugin) < 200


# ------------------------------------------------------------ loading


async def test_a_package_that_hangs_when_it_is_imported_holds_nobody_up() -> None:
    release = threading.Event()
    selection = Selection(name="slow", dispatcher=Plugin(lambda _: Nomination()))
    runner = DispatchRunner(
        DispatcherSetting(dispatcher="slow"),
        lambda: release.wait(30) and selection,
        now=lambda: T0,
        patience=timedelta(milliseconds=1),
    )
    got = await ask(runner)
    assert got.problem == 'dispatcher "slow" is still being loaded'
    assert got.retry_at == T0 + LOADING_RETRY
    assert (runner.is_loading, runner.trouble) == (True, "")
    release.set()


@pytest.mark.parametrize("error", [SystemExit("no"), KeyboardInterrupt("no")])
async def test_a_package_that_ends_the_program_when_it_is_imported_does_not(
    error: BaseException,
) -> None:
    def select() -> Selection:
        raise error

    runner = DispatchRunner(
        DispatcherSetting(dispatcher="x", path="spec.dispatcher"), select, now=lambda: T0
    )
    got = await ask(runner)
    assert got.problem.startswith('spec.dispatcher: dispatcher "x" cannot be loaded: ')
    assert got.failure is Failure.NOT_LOADED
