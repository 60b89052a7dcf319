"""Goals of a simulation, what was measured, and whether it reaches them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Target = tuple[str, float, Literal["<=", ">="], float]
"""The words of a goal, what was measured, how it has to compare, and the goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal with what was measured, and whether that reaches it.

    Attributes:
        change: By how much what was measured is above the goal, as a share of it.
    """

    words: str
    measured: str
    reached: bool
    change: float


GOAL_HEADERS = ("GOAL", "MEASURED", "REACHED")


def judge_targets(targets: Sequence[Target]) -> list[Goal]:
    """Return the goals in the order of the targets, none of which is 0."""
    return [
        Goal(
            words=f"{words} {sign} {goal:g}",
            measured=f"{value:.3g}",
            reached=value <= goal if sign == "<=" else value >= goal,
            change=value / goal - 1,
        )
        for words, value, sign, goal in targets
    ]


def list_goal_rows(goals: Sequence[Goal]) -> list[list[str]]:
    """Return the rows of a table; missed goals come first."""
    return [
        [goal.words, goal.measured, "yes" if goal.reached else "missed"]
        for goal in sorted(goals, key=lambda goal: goal.reached)
    ]
