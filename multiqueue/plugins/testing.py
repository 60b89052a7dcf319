"""Test kit for dispatcher authors: builders for views, and the contract every dispatcher keeps.

```python
from multiqueue.plugins.testing import assert_dispatcher_contract, make_cluster, make_view


def test_contract():
    assert_dispatcher_contract(Cheapest())


def test_takes_the_free_one():
    view = make_view(gpus=4, clusters=[make_cluster("a", gpus=8, used=8), make_cluster("b")])
    assert Cheapest().nominate(view).clusters == ("b",)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from timeit import default_timer

from multiqueue.plugins.builders import (
    GPU,
    JOB_KIND,
    T0,
    make_cluster,
    make_lost_cluster,
    make_queue,
    make_sample_views,
    make_unknown_cluster,
    make_view,
    make_workload,
)
from multiqueue.plugins.dispatcher import ChecksArguments, Dispatcher
from multiqueue.plugins.nomination import Nomination
from multiqueue.plugins.view import DispatchView

__all__ = [
    "BUDGET",
    "GPU",
    "JOB_KIND",
    "PROMISES",
    "T0",
    "Breach",
    "assert_dispatcher_contract",
    "find_breaches",
    "make_cluster",
    "make_lost_cluster",
    "make_queue",
    "make_sample_views",
    "make_unknown_cluster",
    "make_view",
    "make_workload",
]

BUDGET = timedelta(seconds=1)
"""How long a manager waits for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A promise of the contract that a dispatcher broke.

    Attributes:
        promise: One of `PROMISES`.
        words: What happened, and on which view.
    """

    promise: str
    words: str


PROMISES = {
    "form": "has a name and nominate(view), and answers with a Nomination",
    "answers": "answers every view, and raises nothing",
    "in time": "answers within the budget",
    "pure": "leaves the view as it is",
    "deterministic": "gives the same answer to the same view",
    "known names": "names only clusters that it was shown, each once, with true verdicts",
    "order": "gives the same answer whatever the order of the clusters",
    "arguments": "says what is wrong with its arguments beforehand, where it can",
}
"""What every dispatcher keeps, by the name of the promise."""


def assert_dispatcher_contract(
    dispatcher: Dispatcher,
    *,
    views: Sequence[DispatchView] | None = None,
    order_matters: bool = False,
    budget: timedelta = BUDGET,
) -> None:
    """Check that a dispatcher is pure, deterministic, quick, and knows only the given clusters.

    Args:
        dispatcher: The dispatcher.
        views: What to ask it about; `make_sample_views` by default.
        order_matters: Whether the order of the MultiKueueConfig may change its answer.
        budget: How long an answer may take.

    Raises:
        AssertionError: says which promises were broken, and on which view.
    """
    breaches = find_breaches(dispatcher, views=views, order_matters=order_matters, budget=budget)
    assert not breaches, "\n".join(f"{each.promise}: {each.words}" for each in breaches)


def find_breaches(
    dispatcher: Dispatcher,
    *,
    views: Sequence[DispatchView] | None = None,
    order_matters: bool = False,
    budget: timedelta = BUDGET,
) -> tuple[Breach, ...]:
    """Return the promises that a dispatcher breaks, each with the first view that shows it.

    Args:
        dispatcher: The dispatcher.
        views: What to ask it about; `make_sample_views` by default.
        order_matters: Whether the order of the MultiKueueConfig may change its answer.
        budget: How long an answer may take.
    """
    if not isinstance(dispatcher, Dispatcher) or not dispatcher.name:
        return (Breach(promise="form", words="it needs a name that is not empty, and nominate"),)
    found: dict[str, Breach] = {}
    for number, view in enumerate(make_sample_views() if views is None else views):
        for breach in _examine(dispatcher, view, budget, order_matters=order_matters):
            words = f"{dispatcher.name}, view {number}: {breach.words}"
            found.setdefault(breach.promise, replace(breach, words=words))
    for breach in _examine_arguments(dispatcher):
        found.setdefault(breach.promise, breach)
    return tuple(found.values())


def _examine(
    dispatcher: Dispatcher, view: DispatchView, budget: timedelta, *, order_matters: bool
) -> Iterator[Breach]:
    before = deepcopy(view)
    begun = default_timer()
    try:
        got = dispatcher.nominate(view)
        took = default_timer() - begun
        again = dispatcher.nominate(view)
    except Exception as error:  # noqa: BLE001 - whatever it raises is told
        yield Breach(promise="answers", words=f"raised {type(error).__name__}: {error}")
        return
    if took > budget.total_seconds():
        yield Breach(promise="in time", words=f"took {took:.2f} s")
    if view != before:
        yield Breach(promise="pure", words="changed the view")
    if not isinstance(got, Nomination):
        yield Breach(promise="form", words=f"answered {type(got).__name__}, not a Nomination")
        return
    if got != again:
        yield Breach(promise="deterministic", words="another answer to the same view")
    for words in _find_untruths(got, view):
        yield Breach(promise="known names", words=words)
    if not order_matters and _minds_order(dispatcher, view, got):
        yield Breach(promise="order", words="the order of the clusters changes the answer")


def _examine_arguments(dispatcher: Dispatcher) -> Iterator[Breach]:
    if not isinstance(dispatcher, ChecksArguments):
        return
    try:
        none, odd = dispatcher.check_arguments({}), dispatcher.check_arguments({"no such": 1})
    except Exception as error:  # noqa: BLE001 - whatever it raises is told
        words = f"check_arguments raised {type(error).__name__}: {error}"
        yield Breach(promise="arguments", words=words)
        return
    if list(none):
        yield Breach(promise="arguments", words=f"none at all are refused: {list(none)}")
    if not list(odd):
        yield Breach(promise="arguments", words="an unknown one passes")


def _find_untruths(got: Nomination, view: DispatchView) -> Iterator[str]:
    known = {cluster.name for cluster in view.clusters}
    for name in (*got.clusters, *(verdict.cluster for verdict in got.verdicts)):
        if name not in known:
            yield f'names unknown cluster "{name}"'
    if len(set(got.clusters)) != len(got.clusters):
        yield "names a cluster twice"
    for verdict in got.verdicts:
        if verdict.nominated is not (verdict.cluster in got.clusters):
            yield f'verdict on "{verdict.cluster}" is wrong'
    at = got.ask_again_at
    if at is not None and at.tzinfo is None:
        yield "ask_again_at has no time zone"
    elif at is not None and at <= view.now:
        yield "ask_again_at is not in the future"
    if got.refusal and got.clusters:
        yield "refuses and nominates"


def _minds_order(dispatcher: Dispatcher, view: DispatchView, want: Nomination) -> bool:
    clusters = view.clusters
    return any(
        dispatcher.nominate(replace(view, clusters=order)).clusters != want.clusters
        for order in (clusters[::-1], clusters[1:] + clusters[:1])
    )
