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
    recent = [stop for stop in stops if _seconds(stop) > now - rule.window]
    found = [
        each
        for each in (
            _minimum_run(started, recent, cause, rule),
            _too_often(recent, rule),
        )
        if each is not None
    ]
    last = max(found, key=lambda each: each.until or 0, default=None)
    if last is None or last.until is None:
        return None
    until = last.until
    if cause is StopCause.RECLAIM and until > started + concede:
        until = started + concede
        last = last._replace(words=f"{last.words}, conceded after {format_seconds(concede)}")
    return last._replace(until=until) if now < until else None


def grown(seconds: int, stops: int, rule: ProtectionRule) -> int:
    """Return a minimum run after so many recent stops."""
    factor: int = rule.growth ** min(stops, MOST_GROWTHS)
    return max(seconds, min(rule.longest, seconds * factor))


def _minimum_run(
    started: int, recent: Sequence[Stop], cause: StopCause, rule: ProtectionRule
) -> HoldOff | None:
    seconds = rule.min_run.get(cause, 0)
    if not seconds:
        return None
    length = grown(seconds, sum(stop.number for stop in recent), rule)
    return HoldOff(started + length, "minRun", f"minimum run {format_seconds(length)}")


def _too_often(recent: Sequence[Stop], rule: ProtectionRule) -> HoldOff | None:
    """Protect who was stopped often enough, until one stop fewer counts than that."""
    limit = rule.max_preemptions
    if not limit:
        return None
    times = sorted(_seconds(stop) for stop in recent for _ in range(stop.number) if stop.cost > 0)
    if len(times) < limit:
        return None
    words = f"{len(times)} stops in {format_seconds(rule.window)}"
    return HoldOff(times[len(times) - limit] + rule.window, "maxPreemptions", words)


def _seconds(stop: Stop) -> int:
    return int(stop.at.timestamp())
