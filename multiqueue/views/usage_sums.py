"""Sums of usage, for ``multiqueue usage`` and the dashboard. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from multiqueue.api.v1alpha1 import UsageReport
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.views.usage import (
    TIMES,
    UsageFigures,
    UsageKey,
    UsageRows,
    add_hold,
    read_hold,
    read_rows,
)

COLUMNS: Mapping[str, str] = {
    "owner": "owner",
    "namespace": "namespace",
    "queue": "cluster_queue",
    "localqueue": "local_queue",
    "cluster": "worker",
    "flavor": "flavor",
    "cause": "cause",
    "day": "day",
}
"""What rows may be added up by, with the name of the column in CSV."""
FIGURES = (*TIMES, "charged")
INJECTING = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet compute a cell."""

NamespaceRows = Mapping[str, UsageRows]
UsageSums = Sequence[tuple[tuple[str, ...], str, UsageFigures]]
"""(values of what was asked for, resource, figures)."""


def collect(
    reports: Iterable[UsageReport],
    workloads: Iterable[Workload],
    owners: Mapping[str, str],
    *,
    since: datetime,
    now: datetime,
) -> tuple[NamespaceRows, datetime | None]:
    """Return rows by namespace, and since when only present Workloads tell; None: all the time.

    A namespace whose report ends before held no quota since.

    Args:
        reports: The UsageReports.
        workloads: All Workloads that are there now; they tell what reports do not count yet.
        owners: Owners by namespace.
        since: The begin of the first day.
        now: The current time.
    """
    collected = CollectedUsage(reports, owners, since=since, now=now)
    collected.add(workloads)
    return collected.rows, collected.through


class CollectedUsage:
    """What `collect` returns, for a caller that adds the Workloads in several steps.

    Args:
        reports: As for `collect`, as the other arguments.

    Attributes:
        rows: Rows by namespace.
    """

    def __init__(
        self,
        reports: Iterable[UsageReport],
        owners: Mapping[str, str],
        *,
        since: datetime,
        now: datetime,
    ) -> None:
        self.rows: dict[str, UsageRows] = {}
        self._owners, self._since, self._now = owners, since, now
        self._through: dict[str, datetime] = {}
        first = since.strftime("%Y-%m-%d")
        for report in reports:
            namespace = report.metadata.namespace
            until = parse_time(report.status.through)
            if until is not None:
                self._through[namespace] = max(until, self._through.get(namespace, until))
            stored = (read_rows(report.status.rows), read_rows(report.status.recent_rows))
            for key, figures in (item for each in stored for item in each.items()):
                if key.day >= first:
                    of_namespace = self.rows.setdefault(namespace, {})
                    of_namespace.setdefault(key, UsageFigures()).add(figures)

    @property
    def through(self) -> datetime | None:
        """Since when only present Workloads tell; None: all the time."""
        return max(self._through.values(), default=None)

    def add(self, workloads: Iterable[Workload]) -> None:
        """Add what reports do not count yet."""
        owners = self._owners
        for workload in workloads:
            hold = read_hold(workload)
            if hold is not None:
                begin = max(self._since, self._through.get(hold.namespace, self._since))
                rows = self.rows.setdefault(hold.namespace, {})
                add_hold(rows, hold, lambda name: owners.get(name, name), begin, self._now)


def add_up(
    rows: NamespaceRows, by: Sequence[str]
) -> list[tuple[tuple[str, ...], str, UsageFigures]]:
    """Return (values of ``by``, resource, figures), the largest first within a resource.

    What has to be done again is charged to who caused it where rows are added up by owner. Other
    columns do not tell who that is.
    """
    sums: dict[tuple[tuple[str, ...], str], UsageFigures] = {}
    for namespace, each in rows.items():
        for key, figures in each.items():
            values = tuple(_value(namespace, key, COLUMNS[name]) for name in by)
            sums.setdefault((values, key.resource), UsageFigures()).add(figures)
            if figures.redone:
                payer = key._replace(owner=key.paid_by)
                paying = tuple(_value(namespace, payer, COLUMNS[name]) for name in by)
                charged = sums.setdefault((paying, key.resource), UsageFigures())
                charged.paid += figures.redone
    ordered = sorted(sums.items(), key=lambda item: (item[0][1], -item[1].reserved, item[0][0]))
    return [(values, resource, figures) for (values, resource), figures in ordered]


def _value(namespace: str, key: UsageKey, column: str) -> str:
    return namespace if column == "namespace" else str(getattr(key, column))


def list_dicts(sums: UsageSums, by: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows for programs; times are device-seconds."""
    return [
        {
            **dict(zip((COLUMNS[name] for name in by), values, strict=True)),
            "resource": resource,
            "holds": figures.holds,
            **{f"{name}_s": round(getattr(figures, name)) for name in FIGURES},
        }
        for values, resource, figures in sums
    ]


def write_csv(
    rows: Sequence[Mapping[str, Any]], by: Sequence[str], *, since: datetime, now: datetime
) -> str:
    """Return RFC 4180 CSV; a cell that a spreadsheet would compute gets a quote in front."""
    names = [COLUMNS[name] for name in by]
    header = ["from", "to", *names, "resource", "holds", *(f"{name}_s" for name in FIGURES)]
    out = io.StringIO()
    writer = csv.DictWriter(out, header)
    writer.writeheader()
    period = {"from": format_time(since), "to": format_time(now)}
    for row in rows:
        writer.writerow({name: _as_text(value) for name, value in {**period, **row}.items()})
    return out.getvalue()


def _as_text(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(INJECTING) else value
