"""What ``multiqueue workloads list`` shows: where each Workload stands. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.lib.words import words
from multiqueue.views.ages import format_age
from multiqueue.views.phase import AT_WORK, ENDED, PhaseState
from multiqueue.views.start import NoEstimate, say_start_shortly

Json = dict[str, Any]

HEADERS = words("NAME JOB PHASE GPUS WHY")
WIDE_HEADERS = words("NAME JOB PHASE GPUS QUEUE WORKER PRIORITY START AGE WHY")
NOT_WAITING = AT_WORK | ENDED | {PhaseState.DEACTIVATED, PhaseState.REJECTED}
PARKED = frozenset({NoEstimate.NEVER, NoEstimate.PARKED})
"""Why a Workload that waits has no estimate, if something must change before it can start."""


def select_standings(
    standings: Iterable[Json],
    *,
    waiting: bool = False,
    parked: bool = False,
    worker: str = "",
    phases: Collection[str] = (),
) -> list[Json]:
    """Return the standings that are wanted, in their order.

    Args:
        standings: The rows of the fleet API.
        waiting: Whether to leave out what is at work, stopped or has ended.
        parked: Whether to leave out what starts without a change, such as more quota.
        worker: The worker that runs it, ran it or is offered it; empty: any.
        phases: The phases; empty: any.
    """
    return [
        each
        for each in standings
        if not (waiting and each["status"]["phase"] in NOT_WAITING)
        and not (parked and (each["status"]["start"] or {}).get("code") not in PARKED)
        and (not worker or worker in (each["status"]["worker"], *each["status"]["offeredTo"]))
        and (not phases or each["status"]["phase"] in phases)
    ]


def list_standing_rows(
    standings: Iterable[Json], now: datetime, *, with_namespace: bool, wide: bool
) -> list[list[Any]]:
    """Return a row for each standing, in the order of `WIDE_HEADERS` or of `HEADERS`.

    Args:
        standings: The rows of the fleet API.
        now: The time, for ages and starts.
        with_namespace: Whether a name begins with its namespace.
        wide: Whether all columns are wanted.
    """
    rows = []
    for each in standings:
        metadata, status = each["metadata"], each["status"]
        name = metadata["name"]
        more = [
            status["localQueue"],
            status["worker"] or ", ".join(status["offeredTo"]),
            status["priority"],
            say_start_shortly(status["start"], now),
            format_age(parse_time(status["created"]), now),
        ]
        rows.append(
            [
                f"{metadata['namespace']}/{name}" if with_namespace else name,
                status["job"],
                status["words"],
                status["gpus"],
                *(more if wide else ()),
                status["why"],
            ]
        )
    return rows
