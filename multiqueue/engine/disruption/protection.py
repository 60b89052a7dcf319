"""Whether a holder of quota may be stopped for a cause now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from multiqueue.api.disruptions import Stop, StopCause
from multiqueue.model.disruption_policy import ProtectionRule, format_seconds

MOST_GROWTHS = 8


class HoldOff(NamedTuple):
    """Why a candidate may not be stopped, and until when; None: until something changes.

    ``reason`` is a label of the metric, ``words`` are for people.
    """

    until: int | None
    reason: str
    words: str


def find_protection(
    started: int | None,
    stops: Sequence[Stop],
    cause: StopCause,
    rule: ProtectionRule,
    *,
    concede: int,
    now: int,
) -> HoldOff | None:
    """Return what protects a holder from a stop; None if nothing does.

    Args:
        started: when it was admitted; None if it is not, which protects nobody.
        stops: the record of its stops.
        cause: why somebody wants it to leave.
        rule: of the policy of its queue.
        concede: the longest that it may hold up a reclaim, of the preemptor's policy.
        now: the time; a limit includes its end.
    """
    if started is None:
        return None
    recent = [stop for stop in stops if _seconds(stop) > now - rule.window] if stops else ()
    length = _minimum_run(recent, cause, rule)
    often = _often_until(recent, rule)
    last = until = max(started + length if length else 0, often)
    if cause is StopCause.RECLAIM:
        until = min(last, started + concede)
    if now >= until:
        return None
    if length and last == started + length:
        reason, words = "minRun", f"minimum run {format_seconds(length)}"
    else:
        times = sum(stop.number for stop in recent if stop.cost > 0)
        reason, words = "maxPreemptions", f"{times} stops in {format_seconds(rule.window)}"
    if until < last:
        words = f"{words}, conceded after {format_seconds(concede)}"
    return HoldOff(until, reason, words)


def grown(seconds: int, stops: int, rule: ProtectionRule) -> int:
    """Return a minimum run after so many recent stops."""
    factor: int = rule.growth ** min(stops, MOST_GROWTHS)
    return max(seconds, min(rule.longest, seconds * factor))


def _minimum_run(recent: Sequence[Stop], cause: StopCause, rule: ProtectionRule) -> int:
    seconds = rule.min_run.get(cause, 0)
    return grown(seconds, sum(stop.number for stop in recent), rule) if seconds else 0


def _often_until(recent: Sequence[Stop], rule: ProtectionRule) -> int:
    """Return until when too many stops protect: then one fewer counts than that; 0: they do not."""
    limit = rule.max_preemptions
    if not limit or not recent:
        return 0
    times = sorted(_seconds(stop) for stop in recent for _ in range(stop.number) if stop.cost > 0)
    return times[len(times) - limit] + rule.window if len(times) >= limit else 0


def _seconds(stop: Stop) -> int:
    return int(stop.at.timestamp())
