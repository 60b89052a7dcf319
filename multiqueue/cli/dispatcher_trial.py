"""Finds a dispatcher by whatever its author calls it, and tries it on recorded decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.multikueue.dispatching.registry import ENTRY_POINT_GROUP, Dispatchers
from multiqueue.plugins import ChecksArguments, Dispatcher, Nomination
from multiqueue.plugins.recording import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A recorded decision beside what a dispatcher answers to the same view.

    Attributes:
        decision: As it was recorded.
        answer: What the dispatcher says; None where it failed.
        problem: Why it failed.
    """

    decision: Decision
    answer: Nomination | None = None
    problem: str = ""

    @property
    def before(self) -> tuple[str, ...]:
        """The clusters that were nominated then."""
        return self.decision.nomination.clusters if self.decision.nomination else ()

    @property
    def after(self) -> tuple[str, ...]:
        """The clusters that would be now."""
        return self.answer.clusters if self.answer else ()

    @property
    def differs(self) -> bool:
        """Whether the Workload would go elsewhere."""
        return bool(self.problem) or self.before != self.after


def find_dispatchers(name: str) -> list[Dispatcher]:
    """Return dispatchers: the one of that name, ``module:Class``, or all of a distribution.

    Raises:
        CliError: there is none, or it cannot be loaded.
    """
    if ":" in name:
        return [_load(name)]
    dispatchers = Dispatchers()
    names = [name] if name in dispatchers.names else _names_of_distribution(name)
    if not names:
        raise UsageProblem(
            f'there is no dispatcher and no package "{name}"; installed are: '
            f"{', '.join(dispatchers.names)}. A module:Class that can be imported does, too"
        )
    found = []
    for each in names:
        selection = dispatchers.select(each)
        if selection.dispatcher is None:
            raise CliError(selection.problem)
        found.append(selection.dispatcher)
    return found


def replay(
    dispatcher: Dispatcher, decisions: Iterable[Decision], arguments: Mapping[str, Any]
) -> Iterator[Trial]:
    """Yield what a dispatcher says to each recorded view.

    Args:
        dispatcher: Who is asked.
        decisions: What was recorded.
        arguments: What it is told. Empty: what it was told itself; what another dispatcher was told
            is not for it.

    Raises:
        UsageProblem: it refuses the arguments.
    """
    if isinstance(dispatcher, ChecksArguments) and (wrong := dispatcher.check_arguments(arguments)):
        raise UsageProblem("; ".join(wrong))
    for decision in decisions:
        told = decision.view.arguments if decision.dispatcher == dispatcher.name else {}
        view = replace(decision.view, arguments=arguments or told, dispatcher=dispatcher.name)
        try:
            answer = dispatcher.nominate(view)
        except Exception as error:  # noqa: BLE001 - a stranger's code; told beside the others
            problem = f"{type(error).__name__}: {error}"
            yield Trial(decision=decision, problem=problem)
            continue
        if not isinstance(answer, Nomination):
            problem = f"answered {type(answer).__name__}, not a Nomination"
            yield Trial(decision=decision, problem=problem)
            continue
        yield Trial(decision=decision, answer=answer)


def _load(path: str) -> Dispatcher:
    module, _, name = path.partition(":")
    try:
        dispatcher = getattr(import_module(module), name)()
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise CliError(f'dispatcher "{path}" cannot be loaded: {words}') from error
    if not isinstance(dispatcher, Dispatcher):
        raise CliError(f'"{path}" has no name or no nominate(view)')
    return dispatcher


def _names_of_distribution(name: str) -> list[str]:
    try:
        points = distribution(name).entry_points.select(group=ENTRY_POINT_GROUP)
    except PackageNotFoundError:
        return []
    return sorted(point.name for point in points)
