"""What came of a step, and so of a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What to do next.

    Attributes:
        goes_on: Whether the next step of the plan may be done.
        again: Look again now: what can be seen has changed.
        after: Look again in so many seconds.
    """

    goes_on: bool = True
    again: bool = False
    after: float | None = None


DONE = Outcome()
AGAIN = Outcome(goes_on=False, again=True)
WAITING = Outcome(goes_on=False)
"""Something will tell when to look again."""


def stuck(seconds: float) -> Outcome:
    """End the plan here; nothing may come to tell when it can go on."""
    return Outcome(goes_on=False, after=seconds)
