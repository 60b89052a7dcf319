"""How well earlier estimates of starts held: the JSON form, and how people read it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from multiqueue.views.start import StartStage

Json = Mapping[str, Any]

WINDOW = 200
"""The last estimates of a stage and horizon by which both are judged. Parity: S-107."""
ENOUGH = 30
"""With fewer estimates the figures say little. Parity: S-110."""


class StartHorizon(StrEnum):
    """How far ahead a start was estimated. Parity: S-106."""

    MINUTES = "10m"
    HOUR = "1h"
    HOURS = "6h"
    LONGER = "longer"


class EstimateOutcome(StrEnum):
    """How an estimate compares with the start."""

    EARLY = "early"
    """The Workload started before the range."""
    INSIDE = "inside"
    LATE = "late"
    """The range passed before the Workload started."""
    CANCELLED = "cancelled"
    """The Workload ended or was deactivated before it started, and before the range passed."""


JUDGED = (EstimateOutcome.EARLY, EstimateOutcome.INSIDE, EstimateOutcome.LATE)
LIMITS = {
    StartHorizon.MINUTES: timedelta(minutes=10),
    StartHorizon.HOUR: timedelta(hours=1),
    StartHorizon.HOURS: timedelta(hours=6),
}
WORDS = {
    StartHorizon.MINUTES: "less than 10 minutes",
    StartHorizon.HOUR: "10 minutes to an hour",
    StartHorizon.HOURS: "one to six hours",
    StartHorizon.LONGER: "more than six hours",
}


def find_horizon(ahead: timedelta) -> StartHorizon:
    """Return the horizon of a start that is so far ahead."""
    for horizon, limit in LIMITS.items():
        if ahead < limit:
            return horizon
    return StartHorizon.LONGER


def tell_calibration(
    stage: StartStage,
    horizon: StartHorizon,
    outcomes: Collection[EstimateOutcome],
    factor: float,
) -> Json:
    """Return the JSON form of how the last estimates of a stage and horizon held.

    ``factor`` says how many times as wide as they were computed their ranges are now.
    """
    counts = dict.fromkeys(JUDGED, 0)
    for outcome in outcomes:
        counts[outcome] += 1
    words = say_calibration(stage, horizon, counts)
    return {
        "stage": stage,
        "horizon": horizon,
        "judged": len(outcomes),
        **{outcome.value: count for outcome, count in counts.items()},
        "factor": factor,
        "words": words,
    }


def say_calibration(
    stage: StartStage, horizon: StartHorizon, counts: Mapping[EstimateOutcome, int]
) -> str:
    """Return in a sentence how far to trust estimates. Parity: S-108, S-110."""
    judged = sum(counts.values())
    what = "when quota comes" if stage is StartStage.QUOTA else "starts"
    about = f"of {what}, {WORDS[horizon]} ahead"
    if not judged:
        return f"none of the estimates {about}, has been checked yet"
    if judged < ENOUGH:
        held = counts[EstimateOutcome.INSIDE]
        return f"only {judged} of the estimates {about}, checked so far: {held} held"
    early, inside, late = (round(100 * counts[outcome] / judged) for outcome in JUDGED)
    return (
        f"of the last {judged} estimates {about}, {inside} % held, {early} % of the jobs "
        f"started earlier and {late} % later"
    )
