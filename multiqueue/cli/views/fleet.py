"""The tables of ``multiqueue top``, ``changes`` and ``fairness``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.cli.views.drains import Use
from multiqueue.lib.words import count_of
from multiqueue.model.resources import is_accelerator
from multiqueue.views.ages import format_age, format_seconds

Json = dict[str, Any]
FULL, EMPTY = "█", "░"
BAR = 16
"""Cells of a bar."""


def draw_bar(used: float, total: float, *, cells: int = BAR) -> str:
    """Return a bar that is full by the share in use; what is used beyond the total is not drawn."""
    share = min(1.0, used / total) if total > 0 else 0.0
    full = round(share * cells)
    return FULL * full + EMPTY * (cells - full)


def describe_totals(totals: Json, now: datetime) -> str:
    """Return the fleet in one line."""
    status = totals["status"]
    waiting = f"{status['waiting']} waiting"
    if status["waiting"]:
        waiting += f" for {count_of(status['waitingGpus'], 'GPU')}"
    oldest = parse_time(status.get("oldest"))
    if oldest is not None:
        waiting += f", the oldest for {format_age(oldest, now)}"
    start = parse_time(status.get("nextStart"))
    soon = f"; next start about {start.astimezone():%H:%M}" if start is not None else ""
    return (
        f"{status['used']} of {status['gpus']} GPUs in use, "
        f"{count_of(status['holding'], 'job')} with quota, "
        f"{waiting}{soon}"
    )


def list_queue_rows(quotas: Iterable[Json]) -> list[list[Any]]:
    """Return a row for each ClusterQueue and flavor with devices, the most used first."""
    rows = []
    for item in quotas:
        status, name = item["status"], item["metadata"]["name"].partition(":")[2]
        if status["kind"] != "ClusterQueue":
            continue
        for quota in status["quotas"]:
            if not is_accelerator(quota["resource"]):
                continue
            used, nominal = quota["used"] or 0, quota["nominal"] or 0
            lent = " ".join(
                f"{word} {quota[word]}" for word in ("borrowed", "lent") if quota.get(word)
            )
            rows.append(
                (
                    -used,
                    name,
                    [
                        name,
                        quota["flavor"],
                        draw_bar(used, nominal),
                        f"{used}/{nominal}",
                        lent,
                        status["pending"],
                        status["pendingGpus"],
                        status["why"] if not status["active"] else "",
                    ],
                )
            )
    return [row for _, _, row in sorted(rows, key=lambda each: each[:2])]


def list_worker_rows(workers: Iterable[Json]) -> list[list[Any]]:
    """Return a row for each worker."""
    rows = []
    for item in workers:
        status = item["status"]
        used, total = status["used"], status["gpus"]
        is_known = used is not None and total is not None
        state = Use(state=status["use"]["state"]).words if status["connected"] else "Disconnected"
        rows.append(
            [
                item["metadata"]["name"],
                state,
                draw_bar(used, total) if is_known else "",
                f"{used}/{total}" if is_known else "unknown",
                status["running"],
                status["waiting"],
                status["why"] or status["trouble"] or status["use"]["message"] or "",
            ]
        )
    return rows


QUEUE_HEADERS = ("QUEUE", "FLAVOR", "USE", "GPUS", "SHARED", "WAITING", "FOR GPUS", "WHY")
WORKER_HEADERS = ("WORKER", "STATE", "USE", "GPUS", "RUNNING", "OFFERED", "WHY")
SHARE_HEADERS = ("QUEUE", "TURN", "SHARE", "STARVED", "WAITING", "WEIGHT", "PAST USAGE", "COHORT")
CHANGE_HEADERS = ("AGE", "OBJECT", "ACTION", "FIELD", "CHANGE")


def list_share_rows(shares: Iterable[Json]) -> list[list[Any]]:
    """Return a row for each ClusterQueue, those that are starved for longest first."""
    rows = []
    for item in shares:
        status, name = item["status"], item["metadata"]["name"]
        starved, past = status["starvedSeconds"], status["pastUsage"]
        row = [
            name,
            status["rank"] or "-",
            "-" if status["share"] is None else f"{status['share'] / 1000:.2f}",
            format_seconds(starved) if starved else "-",
            status["waiting"],
            status["weight"],
            "-" if past is None else f"{sum(each['usage'] or 0 for each in past):.1f}",
            status["cohort"] or "-",
        ]
        rows.append((-starved, status["cohort"] or "", status["rank"] or 0, name, row))
    return [row for *_, row in sorted(rows, key=lambda each: each[:4])]


def select_changes(rows: Iterable[Json], since: datetime, kinds: Sequence[str]) -> list[Json]:
    """Return the changes since a time, of some kinds; all kinds if none is given."""
    wanted = {kind.lower() for kind in kinds}
    return [
        row
        for row in rows
        if (at := parse_time(row["status"]["at"])) is not None
        and at >= since
        and (not wanted or row["status"]["kind"].lower() in wanted)
    ]


def list_change_rows(changes: Iterable[Json], now: datetime) -> list[list[Any]]:
    """Return a row for each changed field."""
    rows = []
    for change in changes:
        status = change["status"]
        head = [
            format_age(parse_time(status["at"]), now),
            f"{status['kind']}/{status['object']}",
            status["action"] + (f" by {by}" if (by := status.get("by")) else ""),
        ]
        if status["action"] != "changed":
            rows.append([*head, "", ""])
            continue
        for field in status["fields"]:
            before, after = field["from"], field["to"]
            rows.append([*head, field["path"], f"{_value(before)} -> {_value(after)}"])
    return rows


def _value(text: str | None) -> str:
    return "none" if text is None else text
