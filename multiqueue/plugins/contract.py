"""The promises of every dispatcher, and a check that one keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import cast

from multiqueue.plugins.dispatcher import ChecksArguments, Dispatcher
from multiqueue.plugins.kept import MOST_KEPT, count_kept
from multiqueue.plugins.nomination import Nomination
from multiqueue.plugins.raised import describe_error
from multiqueue.plugins.recording import dump, load
from multiqueue.plugins.samples import make_sample_views
from multiqueue.plugins.view import DispatchView
from multiqueue.plugins.watch import HUNG_AFTER, WatchedCall, ask

BUDGET = timedelta(seconds=1)
"""How long a manager waits for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A promise of the contract that a dispatcher broke.

    Attributes:
        promise: One of `PROMISES`.
        words: What happened, and on which view.
        is_hung: Whether a call did not return; then no further calls are made.
    """

    promise: str
    words: str
    is_hung: bool = False


PROMISES = {
    "form": "has a name and nominate(view), and answers with a Nomination",
    "answers": "answers every view, and raises nothing",
    "in time": "answers within the budget",
    "pure": "leaves the view as it is, and uses nothing else: no files, network, clock, chance",
    "alone": "leaves no threads running, and keeps nothing from one call to the next",
    "deterministic": "gives the same answer to the same view",
    "known names": "names only clusters that it was shown, each once, with true verdicts",
    "order": "gives the same answer whatever the order of the clusters",
    "arguments": "says what is wrong with its arguments beforehand, where it can",
}
"""The promises of every dispatcher, by name."""


def find_breaches(
    dispatcher: Dispatcher,
    *,
    views: Sequence[DispatchView] | None = None,
    order_matters: bool = False,
    budget: timedelta = BUDGET,
) -> tuple[Breach, ...]:
    """Return the promises that a dispatcher breaks, each with the first view that shows it.

    Calls run in separate threads; a call that hangs is left running.

    Args:
        dispatcher: The dispatcher.
        views: The views to ask about; `make_sample_views` by default.
        order_matters: Whether the order of the MultiKueueConfig may change its answer.
        budget: How long an answer may take.
    """
    if not isinstance(dispatcher, Dispatcher) or not dispatcher.name:
        return (Breach(promise="form", words="it needs a name that is not empty, and nominate"),)
    found: dict[str, Breach] = {}
    for number, view in enumerate(make_sample_views() if views is None else views):
        for breach in _examine(dispatcher, view, budget, order_matters=order_matters):
            words = f"{dispatcher.name}, view {number}{_describe(view)}: {breach.words}"
            found.setdefault(breach.promise, replace(breach, words=words))
        if any(breach.is_hung for breach in found.values()):
            return tuple(found.values())
    if count_kept(dispatcher) >= MOST_KEPT:
        words = f"{dispatcher.name}: keeps more than {MOST_KEPT} objects"
        found.setdefault("alone", Breach(promise="alone", words=words))
    for breach in _examine_arguments(dispatcher):
        found.setdefault(breach.promise, breach)
    return tuple(found.values())


def _describe(view: DispatchView) -> str:
    """Name the view, so that it can be found in `make_sample_views` or in a recording."""
    names = [cluster.name for cluster in view.clusters]
    others = f" and {len(names) - 4} others" if len(names) > 4 else ""
    return f' ("{view.workload.key}" with {", ".join(names[:4]) or "no clusters"}{others})'


def _examine(
    dispatcher: Dispatcher, view: DispatchView, budget: timedelta, *, order_matters: bool
) -> Iterator[Breach]:
    before = deepcopy(view)
    asked = ask(dispatcher, view, budget)
    again = asked if asked.is_hung else ask(dispatcher, view, budget, closely=True)
    yield from _find_deeds(asked, again, budget)
    if view != before:
        yield Breach(promise="pure", words="changed the view")
    lost = _find_loss(asked) or _find_loss(again)
    if lost is not None:
        yield lost
        return
    if words := _find_malformed(asked.answer):
        yield Breach(promise="form", words=words)
        return
    got = cast("Nomination", asked.answer)
    if got != again.answer:
        yield Breach(promise="deterministic", words="another answer to the same view")
    for words in _find_untruths(got, view):
        yield Breach(promise="known names", words=words)
    if not order_matters:
        yield from _examine_order(dispatcher, view, got, budget)


def _find_deeds(asked: WatchedCall, again: WatchedCall, budget: timedelta) -> Iterator[Breach]:
    """Yield the side effects of both calls; only the first call ran at full speed."""
    if asked.seconds > budget.total_seconds():
        yield Breach(promise="in time", words=f"took {asked.seconds:.2f} s")
    for deed in (*asked.deeds, *again.deeds):
        yield Breach(promise="pure", words=deed)
    if asked.threads or again.threads:
        yield Breach(promise="alone", words="left a thread running")


def _find_loss(asked: WatchedCall) -> Breach | None:
    """Return why there is no answer: the dispatcher hung or raised; None if it answered."""
    if asked.is_hung:
        words = f"did not answer in {HUNG_AFTER} times its budget"
        return Breach(promise="in time", words=words, is_hung=True)
    if asked.error is not None:
        words = f"raised {describe_error(asked.error)}"
        return Breach(promise="answers", words=words)
    return None


def _find_malformed(got: object) -> str:
    """Return how an answer breaks its declared types; empty if it does not."""
    if not isinstance(got, Nomination):
        return f"answered {type(got).__name__}, not a Nomination"
    try:
        read = load(Nomination, dump(got))
    except (ValueError, TypeError, AttributeError) as error:
        return f"its answer is malformed: {error}".replace("must be a list", "must be a tuple")
    return "" if read == got else f"its answer is malformed: {got!r:.200} lacks tuples"


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


def _examine_order(
    dispatcher: Dispatcher, view: DispatchView, want: Nomination, budget: timedelta
) -> Iterator[Breach]:
    clusters = view.clusters
    for order in (clusters[::-1], clusters[1:] + clusters[:1]):
        asked = ask(dispatcher, replace(view, clusters=order), budget)
        lost, got = _find_loss(asked), asked.answer
        if lost is not None:
            yield replace(lost, words=f"{lost.words}, with its clusters in another order")
            return
        if not isinstance(got, Nomination) or got.clusters != want.clusters:
            yield Breach(promise="order", words="the order of the clusters changes the answer")


def _examine_arguments(dispatcher: Dispatcher) -> Iterator[Breach]:
    if not isinstance(dispatcher, ChecksArguments):
        return
    try:
        none, odd = dispatcher.check_arguments({}), dispatcher.check_arguments({"no such": 1})
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises is told
        words = f"check_arguments raised {describe_error(error)}"
        yield Breach(promise="arguments", words=words)
        return
    if list(none):
        yield Breach(promise="arguments", words=f"none at all are refused: {list(none)}")
    if not list(odd):
        yield Breach(promise="arguments", words="an unknown one passes")
