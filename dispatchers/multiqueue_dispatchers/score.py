"""Send each gang to the one worker that suits it best, based on forecasts for all workers.

1. Filters: the worker must be connected, serve the kind, have the LocalQueue and the requested
   hardware, be large enough, and pass the core's other conditions. The argument ``filters`` adds
   conditions.
2. Tiers: workers where the gang fits now, then where it borrows, then where it would stop others,
   then unknown ones, then those where it must wait (`multiqueue.plugins.options`).
3. Within a tier, the highest score wins. Each scorer rates the clusters from 0 to 1000, times its
   weight (`scorers.py`). The argument ``scorers`` changes weights; 0 turns a scorer off.

If the Workload has to wait on every cluster, it waits in the global queue, without a copy
(`multiqueue.plugins.global_queue`). Shorter and smaller Workloads may pass it for a while, and room
is kept for the first ones once ``claimAfter`` has passed since they were created.

There is one remote copy at a time (M-190). If workers have admission checks after the quota (to
provision machines, say), the best ``race`` clusters may try at once. When the first one starts, the
others release their quota; but provisioned machines cost money from the start.

Arguments: ``scorers``, weights by name; ``filters``, names; ``race`` (1); ``wait``, in the
``GlobalQueue`` or on the ``Cluster`` that is likely to start it first; ``passing`` (30), the
percentage for `find_turn`; ``claimAfter`` (4h).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any

from multiqueue.plugins import (
    ClusterVerdict,
    DispatchView,
    Nomination,
    Option,
    ScoreTerm,
    bind,
    find_problems,
    find_turn,
    read_choice,
    read_count,
    read_duration,
    read_names,
    read_weights,
    survey,
)
from multiqueue_dispatchers.filters import FILTERS
from multiqueue_dispatchers.scorers import SCORERS, WEIGHTS

RACE = 1
IN_GLOBAL_QUEUE, ON_CLUSTER = "GlobalQueue", "Cluster"
PASSING = 30
CLAIM_AFTER = timedelta(hours=4)


class Score:
    """Nominates one cluster: the best one of the best tier."""

    name = "score"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the cluster that suits best."""
        weights = _read_weights(view.arguments)
        filters = [FILTERS[name] for name in _read_filters(view.arguments)]
        found = survey(
            view,
            why_not=lambda option: next((why for f in filters if (why := f(view, option))), ""),
            turn=_find_turn(view),
            claim_after=_read_claim_after(view.arguments),
        )
        sheets = _score(view, found.options, weights)
        totals = {name: _total(terms) for name, terms in sheets.items()}
        got = bind(found, lambda option: -totals[option.name], race=_read_race(view.arguments))
        return replace(got, verdicts=tuple(_with_score(v, sheets, totals) for v in got.verdicts))

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return the problems of the arguments."""
        readers = {
            "scorers": _read_weights,
            "filters": _read_filters,
            "race": _read_race,
            "wait": _read_wait,
            "passing": _read_passing,
            "claimAfter": _read_claim_after,
        }
        return find_problems(arguments, readers)


def _find_turn(view: DispatchView) -> datetime | None:
    percent = _read_passing(view.arguments)
    return find_turn(view.workload, percent=percent) if _read_wait(view.arguments) else None


def _read_weights(arguments: Mapping[str, Any]) -> dict[str, int]:
    return read_weights(arguments, "scorers", WEIGHTS)


def _read_filters(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return read_names(arguments, "filters", FILTERS)


def _read_race(arguments: Mapping[str, Any]) -> int:
    return read_count(arguments, "race", RACE)


def _read_wait(arguments: Mapping[str, Any]) -> bool:
    """Return whether the Workload waits in the global queue."""
    return (
        read_choice(arguments, "wait", (IN_GLOBAL_QUEUE, ON_CLUSTER), IN_GLOBAL_QUEUE)
        == IN_GLOBAL_QUEUE
    )


def _read_passing(arguments: Mapping[str, Any]) -> int:
    return read_count(arguments, "passing", PASSING, least=0)


def _read_claim_after(arguments: Mapping[str, Any]) -> timedelta:
    return read_duration(arguments, "claimAfter", CLAIM_AFTER)


def _score(
    view: DispatchView, options: Sequence[Option], weights: Mapping[str, int]
) -> dict[str, tuple[ScoreTerm, ...]]:
    """Return the parts of each option's score; options are compared within their tier."""
    sheets: dict[str, tuple[ScoreTerm, ...]] = {}
    for tier in sorted({option.tier for option in options}):
        peers = [option for option in options if option.tier is tier]
        columns = [
            _build_terms(name, SCORERS[name](view, peers), weight)
            for name, weight in weights.items()
            if weight > 0
        ]
        rows = zip(*columns, strict=True) if columns else repeat(())
        sheets.update((option.name, row) for option, row in zip(peers, rows, strict=False))
    return sheets


def _build_terms(name: str, values: Sequence[int], weight: int) -> list[ScoreTerm]:
    """Return a term for each option; equal terms share one object, since most are equal."""
    terms = {value: ScoreTerm(name=name, value=value, weight=weight) for value in set(values)}
    return [terms[value] for value in values]


def _total(terms: Sequence[ScoreTerm]) -> int:
    """Return the weighted mean."""
    return sum([t.value * t.weight for t in terms]) // max(1, sum([t.weight for t in terms]))


def _with_score(
    verdict: ClusterVerdict,
    sheets: Mapping[str, tuple[ScoreTerm, ...]],
    totals: Mapping[str, int],
) -> ClusterVerdict:
    name = verdict.cluster
    if name not in sheets:
        return verdict
    return replace(verdict, score=totals[name], terms=sheets[name])
