"""A dispatcher's decision for people: the result, and the reason for each cluster. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from multiqueue.plugins import ClusterVerdict, ClusterView, Forecast, Prospect, foresee
from multiqueue.plugins.foresee import find_largest
from multiqueue.plugins.recording import Decision
from multiqueue.views.ages import format_age, format_seconds

HEADERS = ("AGE", "WORKLOAD", "OFFERED TO", "WHY")
WIDE_HEADERS = (*HEADERS[:-1], "DISPATCHER", "PROFILE", "SCORE", "STOPS", HEADERS[-1])
NOW = frozenset({Prospect.FITS, Prospect.BORROWS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLine:
    """The result for one cluster.

    Attributes:
        name: The cluster's name.
        nominated: Whether the Workload is offered there.
        tier: Its tier, if the dispatcher has tiers.
        score: The score from 0 to 1000, if it is scored.
        terms: Value and weight of each scorer, by name.
        start: When the Workload would start there, in words.
        why: The reason.
        forecast: The forecast for the Workload there.
        largest: How many of its pods could ever run there, if it is too large.
    """

    name: str
    nominated: bool
    tier: str
    score: int | None
    terms: dict[str, tuple[int, int]]
    start: str
    why: str
    forecast: Forecast | None
    largest: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the line for programs."""
        return {
            "cluster": self.name,
            "nominated": self.nominated,
            "tier": self.tier or None,
            "score": self.score,
            "terms": {n: {"value": v, "weight": w} for n, (v, w) in self.terms.items()},
            "start": self.start or None,
            "estimate": _dump_estimate(self.forecast),
            **_dump_amounts(self.forecast),
            "largestGang": self.largest,
            "victims": [
                {"workload": v.key or None, "priority": v.priority, "lostSeconds": _seconds(v.lost)}
                for v in (self.forecast.victims if self.forecast else ())
            ],
            "why": self.why,
        }


def describe_clusters(decision: Decision) -> list[ClusterLine]:
    """Return a line per cluster: nominated ones in order, then the best, then by name."""
    nomination = decision.nomination
    chosen = nomination.clusters if nomination is not None else ()
    verdicts = {v.cluster: v for v in (nomination.verdicts if nomination is not None else ())}
    lines = [
        _line(decision, cluster, verdicts.get(cluster.name)) for cluster in decision.view.clusters
    ]
    order = {name: index for index, name in enumerate(chosen)}
    return sorted(
        lines,
        key=lambda line: (
            order.get(line.name, len(order)),
            line.score is None,
            -(line.score or 0),
            line.name,
        ),
    )


def describe_decision(decision: Decision, now: datetime | None = None) -> str:
    """Return the decision in a sentence."""
    profile = f'DispatchProfile "{decision.profile}"' if decision.profile else ""
    by = f"by {profile}" if profile and not decision.dispatcher else f'by "{decision.dispatcher}"'
    if profile and decision.dispatcher:
        by += f" of {profile}"
    when = f", {format_age(decision.view.now, now)} ago" if now is not None else ""
    nomination = decision.nomination
    if nomination is None:
        return f"Not decided {by}{when}: {decision.problem}"
    if nomination.refusal:
        return f"Rejected {by}{when}: {nomination.refusal}"
    if nomination.external:
        return f"Left to a controller outside {by}{when}"
    where = ", ".join(nomination.clusters) or "nowhere for now"
    note = f" ({nomination.note})" if nomination.note else ""
    return f"Offered to {where} {by}{when}{note}"


def list_terms(lines: Iterable[ClusterLine]) -> list[str]:
    """Return the names of all scorers that counted, in order."""
    return list(dict.fromkeys(name for line in lines for name in line.terms))


def to_dict(decision: Decision) -> dict[str, Any]:
    """Return the decision for programs."""
    nomination = decision.nomination
    return {
        "workload": decision.view.workload.key,
        "at": decision.view.now.isoformat(),
        "dispatcher": decision.dispatcher,
        "profile": decision.profile or None,
        "nominated": list(nomination.clusters) if nomination is not None else [],
        "refusal": (nomination.refusal or None) if nomination is not None else None,
        "problem": decision.problem or None,
        "note": (nomination.note or None) if nomination is not None else None,
        "external": nomination is not None and nomination.external,
        "clusters": [line.to_dict() for line in describe_clusters(decision)],
    }


def _line(decision: Decision, cluster: ClusterView, verdict: ClusterVerdict | None) -> ClusterLine:
    forecast, nomination = foresee(decision.view.workload, cluster), decision.nomination
    largest = find_largest(decision.view.workload, cluster)
    reasons = (
        verdict.reason if verdict is not None else "",
        forecast.reason if forecast is not None else "",
        cluster.unusable,
    )
    return ClusterLine(
        name=cluster.name,
        nominated=nomination is not None and cluster.name in nomination.clusters,
        tier=verdict.tier if verdict is not None else "",
        score=verdict.score if verdict is not None else None,
        terms={t.name: (t.value, t.weight) for t in verdict.terms} if verdict is not None else {},
        start=", ".join(_start_words(forecast, largest, decision.view.now)),
        why=next(filter(None, reasons), ""),
        forecast=forecast,
        largest=largest,
    )


def _start_words(forecast: Forecast | None, largest: int | None, now: datetime) -> Iterator[str]:
    if largest:
        yield f"never: at most {largest} pod{'s' if largest > 1 else ''}"
    if forecast is None:
        return
    if forecast.prospect in NOW:
        yield "now"
    if forecast.victims:
        lost = sum((victim.lost for victim in forecast.victims), timedelta())
        hours = lost / timedelta(hours=1)
        yield f"after stopping {len(forecast.victims)} ({hours:.1f} GPU-hours lost)"
    start = forecast.start
    if start is not None and forecast.prospect is Prospect.WAITS:
        at, least, most = (_span(t - now) for t in (start.at, start.earliest, start.latest))
        yield f"in {at} ({least} to {most})"
        if start.ahead:
            yield f"{start.ahead} ahead"


def _span(span: timedelta) -> str:
    return format_seconds(span.total_seconds())


def _dump_estimate(forecast: Forecast | None) -> dict[str, Any] | None:
    start = forecast.start if forecast is not None else None
    if start is None:
        return None
    return {
        "at": start.at.isoformat(),
        "earliest": start.earliest.isoformat(),
        "latest": start.latest.isoformat(),
        "ahead": start.ahead,
    }


def _dump_amounts(forecast: Forecast | None) -> dict[str, Any]:
    """Return the prospect, and what the Workload would get, borrow and leave free."""
    found = forecast if forecast is not None else Forecast(prospect=Prospect.UNKNOWN)
    amounts = {"taken": found.taken, "borrowed": found.borrowed, "left": found.left}
    return {
        "prospect": forecast.prospect.value if forecast is not None else None,
        **{
            name: [
                {"flavor": flavor, "resource": resource, "amount": amount}
                for (flavor, resource), amount in sorted(each.items())
            ]
            for name, each in amounts.items()
        },
    }


def _seconds(span: timedelta) -> int:
    return round(span.total_seconds())


def select_decisions(
    decisions: Iterable[Decision],
    since: datetime,
    *,
    workers: Collection[str] = (),
    profiles: Collection[str] = (),
) -> list[Decision]:
    """Return the decisions since a time, the newest first.

    Args:
        decisions: Any decisions.
        since: The earliest.
        workers: Only those that offered the Workload to one of these; empty: all.
        profiles: Only those by one of these DispatchProfiles; empty: all.
    """
    found = [
        each
        for each in decisions
        if each.view.now >= since
        and (not workers or not set(workers).isdisjoint(_offered(each)))
        and (not profiles or each.profile in profiles)
    ]
    return sorted(found, key=lambda each: each.view.now, reverse=True)


def list_decision_rows(decisions: Iterable[Decision], now: datetime) -> list[list[Any]]:
    """Return a row of `WIDE_HEADERS` for each decision; score and victims are of the first offer.

    WHY is why it was not decided or was rejected, else the dispatcher's note, else the reason for
    the first cluster.
    """
    rows: list[list[Any]] = []
    for each in decisions:
        nomination, lines = each.nomination, describe_clusters(each)
        best = lines[0] if lines and lines[0].nominated else None
        told = (nomination.refusal or nomination.note) if nomination is not None else each.problem
        victims = best.forecast.victims if best is not None and best.forecast is not None else ()
        external = nomination is not None and nomination.external
        rows.append(
            [
                format_age(each.view.now, now),
                each.view.workload.key,
                "by a controller" if external else ", ".join(_offered(each)),
                each.dispatcher,
                each.profile,
                best.score if best is not None else None,
                len(victims) if best is not None else None,
                told or (lines[0].why if lines else ""),
            ]
        )
    return rows


def _offered(decision: Decision) -> tuple[str, ...]:
    return decision.nomination.clusters if decision.nomination is not None else ()
