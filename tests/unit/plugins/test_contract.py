"""The test kit finds what it promises to find, and the public surface stays what it is."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from multiqueue import plugins
from multiqueue.plugins import (
    ClusterVerdict,
    ClusterView,
    DispatchView,
    Forecast,
    Nomination,
    Prospect,
    WorkloadView,
)
from multiqueue.plugins.testing import (
    PROMISES,
    T0,
    assert_dispatcher_contract,
    find_breaches,
    make_cluster,
    make_sample_views,
    make_view,
)

VIEWS = [make_view(clusters=[make_cluster("a"), make_cluster("b")])]


class Answers:
    """Gives one answer after the other, the last one for ever."""

    name = "answers"

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def nominate(self, view: DispatchView) -> Nomination:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class First:
    name = "first"

    def nominate(self, view: DispatchView) -> Nomination:
        return Nomination(clusters=tuple(c.name for c in view.clusters[:1]))


class Slow(First):
    def nominate(self, view: DispatchView) -> Nomination:
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.01:
            pass
        return Nomination()


class Meddler(First):
    def nominate(self, view: DispatchView) -> Nomination:
        view.clusters[0].queue.quotas.clear()
        return Nomination()


class Does(First):
    """Does something beside answering."""

    name = "does"

    def __init__(self, deed: Callable[[], object]) -> None:
        self.deed = deed

    def nominate(self, view: DispatchView) -> Nomination:
        self.deed()
        return Nomination()


class Nameless(First):
    name = ""


class Raises(First):
    name = "raises"

    def nominate(self, view: DispatchView) -> Nomination:
        raise RuntimeError("no idea")


class Checks:
    name = "checks"

    def __init__(self, *answers: object) -> None:
        self.answers = dict(zip(("none", "odd"), answers, strict=True))

    def nominate(self, view: DispatchView) -> Nomination:
        return Nomination()

    def check_arguments(self, arguments):
        answer = self.answers["odd" if arguments else "none"]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("dispatcher", "words"),
    [
        (object(), "needs a name"),
        (Nameless(), "a name that is not empty"),
        (Answers(None), "not a Nomination"),
        (Answers(Nomination(clusters=("moon",))), 'unknown cluster "moon"'),
        (Answers(Nomination(verdicts=(ClusterVerdict(cluster="x", nominated=False),))), '"x"'),
        (Answers(Nomination(clusters=("a", "a"))), "names a cluster twice"),
        (
            Answers(Nomination(verdicts=(ClusterVerdict(cluster="a", nominated=True),))),
            'verdict on "a" is wrong',
        ),
        (Answers(Nomination(ask_again_at=datetime(2030, 1, 1))), "no time zone"),  # noqa: DTZ001
        (Answers(Nomination(ask_again_at=T0)), "not in the future"),
        (Answers(Nomination(clusters=("a",), refusal="no")), "refuses and nominates"),
        (Answers(Nomination(), Nomination(clusters=("a",))), "another answer to the same view"),
        (First(), "the order of the clusters changes the answer"),
        (Meddler(), "changed the view"),
        (
            Raises(),
            r'answers: raises, view 0 \("team-a/train" with a, b\): raised RuntimeError: no',
        ),
        (Does(sys.exit), "answers: does, view 0 .*: raised SystemExit"),
        (Answers(Nomination(clusters="a")), "Nomination.clusters: 'a' must be a tuple"),
        (Answers(Nomination(clusters=["a"])), r"malformed: Nomination\(clusters=\['a'\]"),
        (Answers(Nomination(verdicts=None)), "Nomination.verdicts: None must be a tuple"),
        (Checks((), ()), "arguments: an unknown one passes"),
        (Checks(["x"], ["x"]), "none at all are refused"),
        (Checks((), KeyError("x")), "check_arguments raised KeyError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_broken_promise_is_named(dispatcher, words):
    with pytest.raises(AssertionError, match=words):
        assert_dispatcher_contract(dispatcher, views=VIEWS)


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        (lambda: Path("/etc/hostname").read_text(), "reads /etc/hostname"),
        (lambda: Path(os.devnull).write_text(""), f"writes {os.devnull}"),
        (lambda: socket.getaddrinfo("127.0.0.1", 9), "uses the network"),
        (lambda: socket.socket().close(), "uses the network"),
        (lambda: subprocess.run(["true"], check=True), "starts a program"),
        (lambda: os.environ.get("PREFERRED"), "reads the environment"),
        (lambda: os.getenv("PREFERRED"), "reads the environment"),
        (time.time, "reads the clock"),
        (datetime.utcnow, "reads the clock"),
        (date.today, "reads the clock"),
        (lambda: time.sleep(0), "sleeps"),
        (lambda: random.choice("ab"), "draws random numbers"),
        (uuid.uuid4, "draws random numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "deed",
)
def test_what_it_does_beside_answering_is_told(deed, words):
    def nevertheless() -> None:
        with contextlib.suppress(OSError):
            deed()

    with pytest.raises(AssertionError, match=f"pure: does, view 0 .*: {words}"):
        assert_dispatcher_contract(Does(nevertheless), views=VIEWS)


@pytest.mark.parametrize(
    "deed",
    [
        lambda: Path(os.__file__).read_bytes(),
        lambda: logging.getLogger("x").error("stamped with the time"),
        lambda: random.Random(7).random(),
        lambda: datetime.fromtimestamp(7, tz=T0.tzinfo),
        time.perf_counter,
    ],
    ids=["installed files", "logs", "own chance", "a time that is given", "stop watches"],
)
def test_what_changes_no_answer_is_free(deed):
    assert find_breaches(Does(deed), views=VIEWS) == ()


def test_where_the_tests_were_started_is_not_installed_though_python_looks_there(
    tmp_path, monkeypatch
):
    """``python -m pytest`` puts that folder first; no manager's process may read there."""
    prices = tmp_path / "prices.json"
    prices.write_text("{}")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_breaches(Does(prices.read_text), views=VIEWS) == ()
    monkeypatch.chdir(tmp_path)
    (breach,) = find_breaches(Does(prices.read_text), views=VIEWS)
    assert breach.words.endswith(f"reads {prices}")


def test_one_that_hangs_is_left_alone():
    release = threading.Event()
    views = [*VIEWS, *VIEWS]
    budget = timedelta(milliseconds=1)
    asked = []

    class Hangs(First):
        def nominate(self, view: DispatchView) -> Nomination:
            asked.append(view)
            release.wait()
            return Nomination()

    try:
        with pytest.raises(AssertionError, match=r"in time: .* did not answer in 10 times"):
            assert_dispatcher_contract(Hangs(), views=views, budget=budget)
        assert len(asked) == 1
    finally:
        release.set()


def test_threads_that_stay_are_told():
    release = threading.Event()
    threads = Does(lambda: threading.Thread(target=release.wait).start())
    try:
        with pytest.raises(AssertionError, match=r"alone: does, view 0 .*: left a thread running"):
            assert_dispatcher_contract(threads, views=VIEWS)
    finally:
        release.set()


def test_what_is_kept_is_told():
    hoard: list[object] = []
    hoarder = Does(lambda: hoard.extend(object() for _ in range(10_000)))
    hoarder.hoard = hoard  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="alone: does: keeps more than 20000 objects"):
        assert_dispatcher_contract(hoarder, views=VIEWS)


def test_one_that_raises_for_another_order_only_is_told():
    class Sorted(First):
        def nominate(self, view: DispatchView) -> Nomination:
            if view.clusters[0].name != "a":
                raise KeyError("b")
            return Nomination()

    words = r"raised KeyError: 'b' \(test_contract.py, line \d+\), with its clusters in another"
    with pytest.raises(AssertionError, match=words):
        assert_dispatcher_contract(Sorted(), views=VIEWS)


def test_one_that_takes_too_long_is_named():
    with pytest.raises(AssertionError, match="took"):
        assert_dispatcher_contract(Slow(), views=VIEWS, budget=timedelta(milliseconds=1))


def test_every_breach_is_told_once():
    breaches = find_breaches(First(), views=[*VIEWS, *VIEWS])
    assert [breach.promise for breach in breaches] == ["order"]
    assert find_breaches(Checks((), ("odd",)), views=VIEWS) == ()
    assert all(breach.promise in PROMISES for breach in find_breaches(Raises()))


def test_order_may_matter_to_one_that_says_so():
    assert_dispatcher_contract(First(), order_matters=True)


def test_the_sample_views_have_all_that_a_view_may_have():
    """What no sample has, no dispatcher is asked about before a manager asks it."""
    views = list(make_sample_views())
    clusters = [cluster for view in views for cluster in view.clusters]
    forecasts = [cluster.forecast for cluster in clusters if cluster.forecast is not None]
    assert {forecast.prospect for forecast in forecasts} == set(Prospect)
    own = {"dispatcher", "arguments"}
    assert _list_alike(DispatchView, views) == own, "those are each dispatcher's own"
    assert _list_alike(WorkloadView, [view.workload for view in views]) == set()
    assert _list_alike(ClusterView, clusters) == set()
    assert _list_alike(Forecast, forecasts) == set()


def _list_alike(kind: type, objects: Sequence[object]) -> set[str]:
    """Return the fields that no two of the objects have otherwise."""
    names = (field.name for field in fields(kind))  # type: ignore[arg-type]
    return {name for name in names if len({repr(getattr(each, name)) for each in objects}) == 1}


def test_the_public_surface_is_sorted_and_complete():
    assert plugins.__all__ == sorted(plugins.__all__)
    assert all(hasattr(plugins, name) for name in plugins.__all__)
