"""Send a job to the cheapest cluster that ends it in time, or else to the one that ends it first.

Jobs say by when they should have ended (``multiqueue.dev/deadline: 2026-03-01T08:00:00Z``) and, if
nobody has seen their like before, how long they run (``multiqueue.dev/runtime: 90m``).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from multiqueue.plugins import (
    DispatchView,
    Nomination,
    Option,
    bind,
    cost_of,
    runtime_on,
    survey,
)

DEADLINE = "multiqueue.dev/deadline"


class Deadline:
    """Nominates by price among those in time, by the end among those too late."""

    name = "deadline"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return where the job ends in time."""
        due = _read_deadline(view)

        def lateness_and_cost(option: Option) -> tuple[float, int]:
            start = option.forecast.start
            ends = (start.at if start else view.now) + runtime_on(view.workload, option)
            late = 0.0 if due is None else max(0.0, (ends - due).total_seconds())
            return late, cost_of(view.workload, option) or 0

        def may_wait(option: Option) -> timedelta:
            """Return half of the time to spare: the rest is for what nobody foresaw."""
            spare = due - view.now - runtime_on(view.workload, option) if due else timedelta()
            return spare / 2

        return bind(survey(view, may_wait=may_wait if due else None), lateness_and_cost)


def _read_deadline(view: DispatchView) -> datetime | None:
    text = view.workload.annotations.get(DEADLINE)
    if not text:
        return None
    try:
        due = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f'annotation {DEADLINE}: "{text}" is no time (RFC 3339)') from error
    return due if due.tzinfo is not None else due.replace(tzinfo=UTC)
