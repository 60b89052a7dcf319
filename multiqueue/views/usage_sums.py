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
from multiqueue.model.resources import is_accelerator
from multiqueue.views.usage import (
    TIMES,
    UsageFigures,
    UsageKey,
    UsageRows,
    add_hold,
    read_hold,
    read_rows,
)
from multiqueue.views.usage_prices import Prices

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
COSTS = ("cost", "currency", "unpriced_s")
"""The columns with prices: what is charged has this cost, except so many device-seconds of it."""
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
    rows: NamespaceRows, by: Sequence[str], prices: Prices | None = None
) -> list[tuple[tuple[str, ...], str, UsageFigures]]:
    """Return (values of ``by``, resource, figures), the largest first within a resource.

    What has to be done again is charged to who caused it where rows are added up by owner. Other
    columns do not tell who that is.

    Args:
        rows: The rows by namespace.
        by: What they are added up by.
        prices: What devices cost; None: nothing is said about it.
    """
    sums: dict[tuple[tuple[str, ...], str], UsageFigures] = {}
    for namespace, each in rows.items():
        for key, figures in each.items():
            values = tuple(_value(namespace, key, COLUMNS[name]) for name in by)
            added = sums.setdefault((values, key.resource), UsageFigures())
            added.add(figures)
            _add_cost(added, key, figures.reserved - figures.redone, prices)
            if figures.redone:
                payer = key._replace(owner=key.paid_by)
                paying = tuple(_value(namespace, payer, COLUMNS[name]) for name in by)
                charged = sums.setdefault((paying, key.resource), UsageFigures())
                charged.paid += figures.redone
                _add_cost(charged, key, figures.redone, prices)
    ordered = sorted(sums.items(), key=lambda item: (item[0][1], -item[1].reserved, item[0][0]))
    return [(values, resource, figures) for (values, resource), figures in ordered]


def _add_cost(sum_: UsageFigures, key: UsageKey, seconds: float, prices: Prices | None) -> None:
    """Add the cost of seconds of what is charged. Only devices have a price."""
    if prices is None or not is_accelerator(key.resource):
        return
    price = prices.find(key.flavor, key.day)
    if price is None:
        sum_.unpriced += seconds
    else:
        sum_.cost += price * seconds / 3600


def tell_cost(resource: str, figures: UsageFigures) -> float | None:
    """Return a cost, rounded; None if nothing in it has a price."""
    has_none = figures.unpriced > 0 and not figures.cost
    return None if has_none or not is_accelerator(resource) else round(figures.cost, 2)


def _value(namespace: str, key: UsageKey, column: str) -> str:
    return namespace if column == "namespace" else str(getattr(key, column))


def list_dicts(
    sums: UsageSums, by: Sequence[str], prices: Prices | None = None
) -> list[dict[str, Any]]:
    """Return the rows for programs; times are device-seconds. With prices there are costs."""
    return [
        {
            **dict(zip((COLUMNS[name] for name in by), values, strict=True)),
            "resource": resource,
            "holds": figures.holds,
            **{f"{name}_s": round(getattr(figures, name)) for name in FIGURES},
            **(_tell_costs(resource, figures, prices) if prices is not None else {}),
        }
        for values, resource, figures in sums
    ]


def _tell_costs(resource: str, figures: UsageFigures, prices: Prices) -> dict[str, Any]:
    cost = tell_cost(resource, figures)
    currency = prices.currency if cost is not None else ""
    return dict(zip(COSTS, (cost, currency, round(figures.unpriced)), strict=True))


def write_csv(
    rows: Sequence[Mapping[str, Any]],
    by: Sequence[str],
    *,
    since: datetime,
    now: datetime,
    priced: bool = False,
) -> str:
    """Return RFC 4180 CSV; a cell that a spreadsheet would compute gets a quote in front.

    Args:
        rows: What `list_dicts` returns.
        by: What they were added up by.
        since: The begin of the period.
        now: Its end.
        priced: Whether the rows have costs.
    """
    names = [COLUMNS[name] for name in by]
    header = ["from", "to", *names, "resource", "holds", *(f"{name}_s" for name in FIGURES)]
    header += COSTS if priced else ()
    out = io.StringIO()
    writer = csv.DictWriter(out, header)
    writer.writeheader()
    period = {"from": format_time(since), "to": format_time(now)}
    for row in rows:
        writer.writerow({name: _as_text(value) for name, value in {**period, **row}.items()})
    return out.getvalue()


def _as_text(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(INJECTING) else value
