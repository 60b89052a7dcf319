"""Finds a dispatcher by any of its names, and tries it on recorded decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from typing import Any

from multiqueue.cli.dispatcher_apart import Apart, Here
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.dispatcher_host.make_dispatcher import EntryError, check_arguments, make_dispatcher
from multiqueue.dispatcher_host.registry import ENTRY_POINT_GROUP, Dispatchers
from multiqueue.dispatcher_host.shadow import find_difference
from multiqueue.plugins import Dispatcher, DispatchView, Nomination
from multiqueue.plugins.contract import Breach, find_breaches
from multiqueue.plugins.recording import Decision

APART = "apart"
APART_WORDS = "answers the same in the process that a manager runs it in"
"""A promise that the contract's checks in this process cannot test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDispatcher:
    """A dispatcher that was found but not loaded yet.

    Attributes:
        name: Its name in configurations.
        value: ``module:Class``; empty for a built-in one.
        dispatcher: The object, for a built-in one.
        is_installed: Whether an installed package names it.
    """

    name: str
    value: str = ""
    dispatcher: Dispatcher | None = None
    is_installed: bool = True

    def load(self) -> Dispatcher:
        """Load the dispatcher into this process, which runs code of its package, and return it.

        Raises:
            CliError: it cannot be loaded.
        """
        if self.dispatcher is not None:
            return self.dispatcher
        try:
            return make_dispatcher(self.value)
        except EntryError as error:
            raise CliError(f'dispatcher "{self.name}" {error}') from error


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherTrial:
    """A recorded decision, and a dispatcher's answer to the same view.

    Attributes:
        decision: The recorded decision.
        answer: The dispatcher's answer; None if it failed.
        problem: Why it failed.
    """

    decision: Decision
    answer: Nomination | None = None
    problem: str = ""

    @property
    def differs(self) -> bool:
        """Whether the answer would have had another result."""
        then = self.decision.nomination
        if then is None or self.answer is None:
            return True
        return bool(find_difference(then, self.answer))


def find_entries(name: str) -> list[FoundDispatcher]:
    """Return dispatchers: the one of that name, ``module:Class``, or all of a distribution.

    Raises:
        CliError: no dispatcher was found.
    """
    if ":" in name:
        points = entry_points(group=ENTRY_POINT_GROUP)
        called = next((point.name for point in points if point.value == name), name)
        return [FoundDispatcher(name=called, value=name, is_installed=called != name)]
    dispatchers = Dispatchers()
    names = [name] if name in dispatchers.names else _names_of_distribution(name)
    if not names:
        raise UsageProblem(
            f'there is no dispatcher and no package "{name}"; installed are: '
            f"{', '.join(dispatchers.names)}. Install its package (pip install -e FOLDER), or name "
            "a module:Class that can be imported"
        )
    found = []
    for each in names:
        selection = dispatchers.find(each)
        if selection.problem:
            raise CliError(selection.problem)
        found.append(
            FoundDispatcher(name=each, value=selection.apart, dispatcher=selection.dispatcher),
        )
    return found


async def examine(
    entry: FoundDispatcher, views: Sequence[DispatchView], *, order_matters: bool
) -> tuple[Breach, ...]:
    """Return the promises that a dispatcher breaks.

    It is asked in its own process first. If it hangs or ends that process, it is not asked in this
    one.

    Raises:
        CliError: it cannot be loaded.
    """
    asker = await _open(entry, {})
    try:
        apart = [await asker.ask(_shown(view, entry, view.arguments)) for view in views]
    finally:
        await asker.close()
    lost = next((reply.problem for reply in apart if reply.is_lost), "")
    if lost:
        return (Breach(promise=APART, words=f"{entry.name}: {lost}", is_hung=True),)
    dispatcher = entry.load()
    breaches = find_breaches(dispatcher, views=views, order_matters=order_matters)
    if any(breach.is_hung for breach in breaches) or isinstance(asker, Here):
        return breaches
    here = Here(dispatcher)
    for number, (view, there) in enumerate(zip(views, apart, strict=True)):
        answer = await here.ask(_shown(view, entry, view.arguments))
        if there.nomination != answer.nomination:
            words = there.problem or "answered otherwise than here"
            breach = Breach(promise=APART, words=f"{entry.name}, view {number}: {words}")
            return (*breaches, breach)
    return breaches


async def list_trials(
    entry: FoundDispatcher, decisions: Iterable[Decision], arguments: Mapping[str, Any]
) -> list[DispatcherTrial]:
    """Return a dispatcher's answer to each recorded view.

    Args:
        entry: The dispatcher to ask.
        decisions: The recorded decisions.
        arguments: The arguments for the dispatcher. If empty, the recorded ones are used, but only
            if they were recorded for this dispatcher.

    Raises:
        UsageProblem: it refuses the arguments.
        CliError: it cannot be loaded.
    """
    asker = await _open(entry, arguments)
    trials = []
    try:
        for decision in decisions:
            told = decision.view.arguments if decision.dispatcher == entry.name else {}
            reply = await asker.ask(_shown(decision.view, entry, arguments or told))
            trials.append(
                DispatcherTrial(decision=decision, answer=reply.nomination, problem=reply.problem)
            )
    finally:
        await asker.close()
    return trials


async def _open(entry: FoundDispatcher, arguments: Mapping[str, Any]) -> Here | Apart:
    """Return a way to ask it: in this process if it is built in or importable only here."""
    if entry.dispatcher is None:
        apart = Apart(entry.name, entry.value, arguments)
        problem = await apart.load()
        if apart.wrong_arguments:
            raise UsageProblem("; ".join(apart.wrong_arguments))
        if not problem:
            return apart
        if entry.is_installed:
            raise CliError(problem)
    dispatcher = entry.load()
    if wrong := check_arguments(dispatcher, arguments):
        raise UsageProblem("; ".join(wrong))
    return Here(dispatcher)


def _shown(
    view: DispatchView, entry: FoundDispatcher, arguments: Mapping[str, Any]
) -> DispatchView:
    return replace(view, arguments=arguments, dispatcher=entry.name)


def _names_of_distribution(name: str) -> list[str]:
    try:
        points = distribution(name).entry_points.select(group=ENTRY_POINT_GROUP)
    except PackageNotFoundError:
        return []
    return sorted(point.name for point in points)
