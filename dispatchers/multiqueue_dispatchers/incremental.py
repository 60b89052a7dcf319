"""Offer the Workload to a few clusters, and to a few more per round until one admits it.

A round ends when its time is over. It ends at once if none of the nominated clusters can take the
Workload. Clusters stay nominated. The start of a round is read from the current offers, so a
restarted manager continues the round that it finds. A new reservation starts again.

Arguments: ``stepSize``, clusters per round (3); ``roundTime`` (``5m``); ``order``: ``Config``, the
order of the MultiKueueConfig (the default), or ``Name``.

Parity: M-111 to M-115.
Deviates: clusters that cannot take the Workload do not count for a step, and follow once they can;
upstream nominates clusters that are not connected, and waits for rounds that nobody can win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from multiqueue.plugins import (
    ClusterVerdict,
    ClusterView,
    CopyState,
    DispatchView,
    Fit,
    Nomination,
    Outlook,
    find_problems,
    judge,
    read_choice,
    read_count,
    read_duration,
)

STEP_SIZE = 3
ROUND_TIME = timedelta(minutes=5)
CANNOT = frozenset({Outlook.NEVER, Outlook.UNAVAILABLE})
"""Outcomes that time alone does not change: somebody must add a queue or a flavor first."""


class Incremental:
    """Nominates all earlier clusters, and one step more when the round is over."""

    name = "kueue.x-k8s.io/multikueue-dispatcher-incremental"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the clusters of all rounds up to the current one."""
        step = _read_step(view.arguments)
        round_time = _read_round_time(view.arguments)
        order = _read_order(view.arguments)
        fits = {cluster.name: judge(view.workload, cluster) for cluster in view.clusters}
        present = _list_present(view)
        names = [cluster.name for cluster in present]
        left = [
            cluster.name
            for cluster in _arrange(view.clusters, order)
            if cluster.name not in names and fits[cluster.name].outlook not in CANNOT
        ]
        ends_at = _end_of_round(present, fits, view.now, round_time)
        if ends_at <= view.now:
            names, left = [*names, *left[:step]], left[step:]
            ends_at = view.now + round_time
        return Nomination(
            clusters=tuple(names),
            verdicts=_verdicts(fits, names, left),
            ask_again_at=ends_at if left else None,
            note=_describe_rest(names, left[:step], ends_at),
        )

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return the problems of the arguments."""
        readers = {"stepSize": _read_step, "roundTime": _read_round_time, "order": _read_order}
        return find_problems(arguments, readers)


def _read_step(arguments: Mapping[str, Any]) -> int:
    return read_count(arguments, "stepSize", STEP_SIZE)


def _read_round_time(arguments: Mapping[str, Any]) -> timedelta:
    return read_duration(arguments, "roundTime", ROUND_TIME)


def _read_order(arguments: Mapping[str, Any]) -> str:
    return read_choice(arguments, "order", ("Config", "Name"), "Config")


def _list_present(view: DispatchView) -> list[ClusterView]:
    """Return the usable clusters that are nominated or have a copy, in order of nomination.

    A cluster that was lost for a moment returns with its copy and the copy's queue position.
    """
    before = {name: place for place, name in enumerate(view.nominated)}
    found = [
        cluster
        for cluster in view.clusters
        if not cluster.unusable and (cluster.name in before or cluster.copy is not CopyState.ABSENT)
    ]
    return sorted(found, key=lambda cluster: before.get(cluster.name, len(before)))


def _arrange(clusters: Sequence[ClusterView], order: str) -> Iterable[ClusterView]:
    return sorted(clusters, key=lambda cluster: cluster.name) if order == "Name" else clusters


def _end_of_round(
    present: Sequence[ClusterView], fits: Mapping[str, Fit], now: datetime, round_time: timedelta
) -> datetime:
    """Return when the round of the last offer ends; now, if no nominated cluster can take it."""
    if all(fits[cluster.name].outlook in CANNOT for cluster in present):
        return now
    return max(cluster.offered_at or now for cluster in present) + round_time


def _verdicts(
    fits: Mapping[str, Fit], names: Sequence[str], left: Sequence[str]
) -> tuple[ClusterVerdict, ...]:
    return tuple(
        ClusterVerdict(
            cluster=name, nominated=name in names, reason="" if name in left else fit.reason
        )
        for name, fit in sorted(fits.items())
    )


def _describe_rest(names: Sequence[str], following: Sequence[str], ends_at: datetime) -> str:
    if following:
        return f"from {ends_at:%H:%M:%S} UTC on also to {', '.join(following)}"
    return "no other cluster is left to try" if names else ""
