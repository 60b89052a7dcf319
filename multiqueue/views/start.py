"""When a waiting Workload is expected to start: the JSON form, and how people read it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.views.ages import format_seconds

if TYPE_CHECKING:  # the commands, which must start quickly, import this module
    from multiqueue.plugins.forecast import Basis, StartEstimate

MINUTES_UNDER, QUARTERS_UNDER = timedelta(hours=2), timedelta(days=1)
MINUTE, QUARTER, HOUR = timedelta(minutes=1), timedelta(minutes=15), timedelta(hours=1)
SLACK = MINUTE / 2
"""A start so long after its range still counts as inside: times are shown by the minute."""
Json = Mapping[str, Any]


class StartStage(StrEnum):
    """What an estimate ends with."""

    QUOTA = "quota"
    """The Workload gets quota on this cluster."""
    WHOLE = "whole"
    """It gets quota, and its admission checks have passed."""


class StartCaveat(StrEnum):
    """What an estimate leaves out, or rests on."""

    LATER_ARRIVALS = "LaterArrivals"
    PREEMPTION = "Preemption"
    ASSUMED_RUNTIMES = "AssumedRuntimes"
    DECLARED_RUNTIMES = "DeclaredRuntimes"
    TURNS_BY_USAGE = "TurnsByUsage"
    CHECKS = "Checks"


class NoEstimate(StrEnum):
    """Why there is no estimate."""

    NEVER = "Never"
    HELD = "Held"
    PARKED = "Parked"
    STARTING = "Starting"
    NOT_LEADING = "NotLeading"


SENTENCES: Mapping[StartCaveat | NoEstimate, str] = {
    StartCaveat.LATER_ARRIVALS: "jobs that are submitted later may pass it",
    StartCaveat.PREEMPTION: "it waits for preempted Workloads to stop",
    StartCaveat.ASSUMED_RUNTIMES: (
        "{assumed} of {known} jobs in its cohort never said how long they run, and nothing like "
        "them has ended here"
    ),
    StartCaveat.DECLARED_RUNTIMES: "it rests on the runtimes that jobs declare",
    StartCaveat.TURNS_BY_USAGE: "whose turn it is depends on usage that changes",
    StartCaveat.CHECKS: (
        "this is when it gets quota; then its checks decide ({checks}), which too few Workloads "
        "have passed to say how long that takes"
    ),
    NoEstimate.NEVER: (
        "it does not start even if everything that runs or waits before it ends: {message}"
    ),
    NoEstimate.HELD: "nobody knows until when it is held: {message}",
    NoEstimate.PARKED: "it waits for a change that cannot be foreseen: {message}",
    NoEstimate.STARTING: "the manager has not read this Workload yet",
    NoEstimate.NOT_LEADING: "unknown: only the manager that leads estimates starts",
}
"""What is said for each caveat, and for each reason why there is no estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRuntimes:
    """How well the runtimes in a cohort tree are known.

    Attributes:
        known: Number of Workloads that run or wait there.
        assumed: How many of them have an assumed runtime.
        weakest: The least reliable source among them.
    """

    known: int
    assumed: int
    weakest: Basis


def tell_start(
    start: StartEstimate,
    *,
    made: datetime,
    stage: StartStage,
    runtimes: TreeRuntimes,
    caveats: Iterable[StartCaveat],
    checks: Iterable[str] = (),
    factor: float = 1.0,
    stages: Iterable[Json] = (),
) -> Json:
    """Return the JSON form of an estimate. Parity: S-104.

    Args:
        start: The estimate.
        made: When it was made.
        stage: What it ends with.
        runtimes: How well the runtimes that it rests on are known.
        caveats: What it leaves out, or rests on.
        checks: The admission checks that come after quota.
        factor: How many times as wide as it was computed the range is. Parity: S-107.
        stages: What it is ahead of, each as `tell_stage` returns it, the last to end last.
    """
    facts = {
        "assumed": runtimes.assumed,
        "known": runtimes.known,
        "checks": ", ".join(checks),
    }
    return {
        **tell_range(start),
        "made": format_time(made),
        "stage": stage,
        "ahead": start.ahead,
        "factor": factor,
        "basis": runtimes.weakest,
        "caveats": [{"code": code, "message": SENTENCES[code].format(**facts)} for code in caveats],
        "stages": list(stages),
    }


def tell_range(start: StartEstimate) -> Json:
    """Return the median of an estimate and the range in which four in five come."""
    return {
        "at": format_time(start.at),
        "earliest": format_time(start.earliest),
        "latest": format_time(start.latest),
    }


def tell_stage(name: str, end: StartEstimate, cluster: str | None = None) -> Json:
    """Return when one stage of a wait is expected to end; without a cluster it is this one."""
    return {"name": name, "cluster": cluster, **tell_range(end)}


def tell_no_start(code: NoEstimate, message: str = "") -> Json:
    """Return the JSON form of why there is no estimate."""
    return {"code": code, "reason": SENTENCES[code].format(message=message)}


def with_promise(start: Json, promised: datetime) -> Json:
    """Add when a Workload with room kept for it starts at the latest. Parity: P-91."""
    told = {**_end_by(start, promised), "promised": format_time(promised)}
    if "stages" in told:
        told["stages"] = [_end_by(stage, promised) for stage in told["stages"]]
    if "caveats" in told:
        passers = StartCaveat.LATER_ARRIVALS
        told["caveats"] = [each for each in told["caveats"] if each["code"] != passers]
    return told


def _end_by(told: Json, limit: datetime) -> dict[str, Any]:
    """Return an estimate or stage that ends by a time at the latest."""
    times = {name: parse_time(told.get(name)) for name in ("at", "latest")}
    late = [name for name, at in times.items() if at is not None and at > limit]
    return {**told, **dict.fromkeys(late, format_time(limit))}


def say_start(start: Json, now: datetime) -> str:
    """Return an estimate as people read it, in the time zone of ``now``.

    It names no time in the past. Parity: S-103, P-91.
    """
    at, earliest, latest = (parse_time(start.get(name)) for name in ("at", "earliest", "latest"))
    promise = _say_promise(start, now)
    if at is None or earliest is None or latest is None:
        return promise or f"not known: {start['reason']}"
    when = _say_when(at, earliest, latest, now)
    return "; ".join(filter(None, (when, _say_ahead(start), promise)))


def say_range(start: Json, now: datetime) -> str:
    """Return the range of an earlier estimate, rounded as when it was made."""
    made, at, *ends = (_read(start, name) for name in ("made", "at", "earliest", "latest"))
    low, high = (_clock(each, at - made, now) for each in ends)
    return f"about {low}" if low == high else f"from {low} to {high}"


def _read(start: Json, name: str) -> datetime:
    found = parse_time(start[name])
    assert found is not None, "an estimate has this time"
    return found


def say_start_shortly(start: Json | None, now: datetime) -> str:
    """Return an estimate for a column, with the time until the start; "kept": room is kept for it.

    Empty if the Workload has started, or never does.
    """
    if start is None:
        return ""
    kept = ", kept" if start.get("promised") else ""
    at = parse_time(start.get("at") or start.get("promised"))
    if at is None:
        return "unknown"
    if at > now:
        return f"in ~{format_seconds((at - now).total_seconds())}{kept}"
    latest = parse_time(start.get("latest")) or at
    return f"now{kept}" if now <= latest + SLACK else f"late{kept}"


def _say_promise(start: Json, now: datetime) -> str:
    promised = parse_time(start.get("promised"))
    if promised is None:
        return ""
    return f"room is kept for it, by {_clock(promised, promised - now, now)} at the latest"


def say_caveats(start: Json) -> list[str]:
    """Return what an estimate leaves out or rests on, one sentence each."""
    return [each["message"] for each in start.get("caveats", ())]


def _say_ahead(start: Json) -> str:
    ahead: int = start["ahead"]
    return f"{ahead} job{'s' if ahead != 1 else ''} before it" if ahead else ""


def _say_when(at: datetime, earliest: datetime, latest: datetime, now: datetime) -> str:
    if at <= now <= latest + SLACK:
        return "now"
    if latest + SLACK < now:
        return f"later than foreseen (by {_clock(latest, now - latest, now)})"
    if latest - now < MINUTE:
        return "in under a minute"
    low, middle, high = (_clock(max(each, now), at - now, now) for each in (earliest, at, latest))
    return f"about {middle}" if low == high else f"about {middle} ({low} to {high})"


def _clock(moment: datetime, distance: timedelta, now: datetime) -> str:
    """Return a time rounded to what is known so far ahead. Parity: P-90."""
    step = HOUR
    if distance < QUARTERS_UNDER:
        step = MINUTE if distance < MINUTES_UNDER else QUARTER
    local = moment.astimezone(now.tzinfo)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    rounded = midnight + round((local - midnight) / step) * step
    if rounded < now <= moment:
        rounded += step
    return f"{rounded:%H:%M}" if rounded.date() == now.date() else f"{rounded:%a %d %b %H:%M}"
