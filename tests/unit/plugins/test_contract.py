"""The test kit finds what it promises to find, and the public surface stays what it is."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest

from multiqueue import plugins
from multiqueue.plugins import ClusterVerdict, DispatchView, Nomination
from multiqueue.plugins.testing import (
    PROMISES,
    T0,
    assert_dispatcher_contract,
    find_breaches,
    make_cluster,
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
        (Raises(), "answers: raises, view 0: raised RuntimeError: no idea"),
        (Checks((), ()), "arguments: an unknown one passes"),
        (Checks(["x"], ["x"]), "none at all are refused"),
        (Checks((), KeyError("x")), "check_arguments raised KeyError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_broken_promise_is_named(dispatcher, words):
    with pytest.raises(AssertionError, match=words):
        assert_dispatcher_contract(dispatcher, views=VIEWS)


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


def test_the_public_surface_is_sorted_and_complete():
    assert plugins.__all__ == sorted(plugins.__all__)
    assert all(hasattr(plugins, name) for name in plugins.__all__)
