"""Send a job to the cheapest cluster in time, or else to the one that ends it first.

Jobs declare their deadline (``multiqueue.dev/deadline: 2026-03-01T08:00:00Z``). If no similar job
has run before, they also declare their runtime (``multiqueue.dev/runtime: 90m``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from multiqueue.plugins import (
    DispatchView,
    Nomination,
    Option,
    bind,
    cost_of,
    find_problems,
    runtime_on,
    survey,
)

DEADLINE = "multiqueue.dev/deadline"


class Deadline:
    """Nominates by price among clusters that are in time, else by the end of the job."""

    name = "deadline"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the cluster where the job ends in time."""
        due = _read_deadline(view)

        def lateness_and_cost(option: Option) -> tuple[float, float]:
            start = option.forecast.start
            ends = (start.at if start else view.now) + runtime_on(view.workload, option)
            late = 0.0 if due is None else max(0.0, (ends - due).total_seconds())
            cost = cost_of(view.workload, option)
            return late, float("inf") if cost is None else cost

        def half_to_spare(option: Option) -> timedelta:
            return (due - view.now - runtime_on(view.workload, option)) / 2 if due else timedelta()

        return bind(survey(view, may_wait=half_to_spare if due else None), lateness_and_cost)

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse every argument: there are none."""
        return find_problems(arguments, {})


def _read_deadline(view: DispatchView) -> datetime | None:
    if not (text := view.workload.annotations.get(DEADLINE)):
        return None
    try:
        due = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f'annotation {DEADLINE}: "{text}" is no time (RFC 3339)') from error
    return due if due.tzinfo is not None else due.replace(tzinfo=UTC)
