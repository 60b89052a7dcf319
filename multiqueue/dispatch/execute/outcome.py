"""The outcome of a step, and so of a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What to do next.

    Attributes:
        goes_on: Whether the next step of the plan may be done.
        again: Whether to reconcile again now, because the state has changed.
        after: In how many seconds to reconcile again.
    """

    goes_on: bool = True
    again: bool = False
    after: float | None = None


DONE = Outcome()
AGAIN = Outcome(goes_on=False, again=True)
WAITING = Outcome(goes_on=False)
"""An event will come and cause the next reconcile."""


def stuck(seconds: float) -> Outcome:
    """End the plan here; no event may come that says when it can go on."""
    return Outcome(goes_on=False, after=seconds)
