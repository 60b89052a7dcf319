"""What the page Usage shows: a month of UsageReports, added up as ``multiqueue usage`` does.

Everything is read with the credentials of the reader, so it is what the reader may list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from multiqueue.api.names import OWNER
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import UsageReport
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import NAMESPACES, USAGE_REPORTS, WORKLOADS, Resource
from multiqueue.model.owners import list_owners
from multiqueue.model.resources import is_accelerator
from multiqueue.views.usage_sums import (
    COLUMNS,
    CollectedUsage,
    NamespaceRows,
    UsageSums,
    add_up,
    list_dicts,
    write_csv,
)

MONTH = "%Y-%m"
MAX_ROWS = 200
"""Rows of the table; ``more`` has the sum of the others, and the CSV has all."""
MAX_NAMES = 20
"""Values that the days tell apart; those of the others are added up."""
MAX_MONTHS, MAX_RESOURCES = 36, 50
AT_ONCE = 200
"""Workloads that are added up before other requests have their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """What a reader asks for.

    Attributes:
        begin: The begin of the month.
        by: What rows are added up by: a key of `COLUMNS`.
        resource: The resource to show; empty: the accelerator that was reserved most.
    """

    begin: datetime
    by: str
    resource: str

    @property
    def end(self) -> datetime:
        """The begin of the next month."""
        return (self.begin + timedelta(days=31)).replace(day=1)


def read_question(query: Mapping[str, str], now: datetime) -> UsageQuestion:
    """Read the query of the page; what is missing is this month, by owner.

    Raises:
        ValueError: the query asks for what there is not; the text says what to ask for.
    """
    by = query.get("by") or "owner"
    if by not in COLUMNS:
        raise ValueError(f'by: "{by[:80]}" is not known; choose from {", ".join(COLUMNS)}')
    month = query.get("month") or now.strftime(MONTH)
    try:
        begin = datetime.strptime(month, MONTH).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f'month: "{month[:80]}" is no month; write 2026-01') from None
    if begin.year >= 9999:
        raise ValueError(f'month: "{month}" is too late; write 2026-01')
    return UsageQuestion(begin=begin, by=by, resource=query.get("resource", ""))


class MonthlyUsage:
    """The usage of one month, as far as the reader may see it."""

    def __init__(self, question: UsageQuestion, now: datetime) -> None:
        self._question = question
        self._now = now
        self._until = min(now, question.end)
        self._narrowed = ""
        self._reports: list[UsageReport] = []
        self._rows: NamespaceRows = {}
        self._through: datetime | None = None

    async def read(self, client: KubeClient, namespace: str) -> None:
        """Read reports and Workloads of all namespaces, or of one if the rights end there.

        Args:
            client: A client with the credentials of the reader.
            namespace: The namespace to read if the reader may not list all; empty: none.

        Raises:
            Forbidden: The reader may list neither.
            KubeError: The API server does not answer.
        """
        listed = await asyncio.gather(
            self._list(client, USAGE_REPORTS, UsageReport, namespace),
            self._list(client, WORKLOADS, Workload, namespace),
            read_owners(client),
        )
        self._reports, workloads, owners = listed
        collected = CollectedUsage(
            self._reports, owners, since=self._question.begin, now=self._until
        )
        for first in range(0, len(workloads), AT_ONCE):
            collected.add(workloads[first : first + AT_ONCE])
            await asyncio.sleep(0)
        rows, self._through = collected.rows, collected.through
        month = self._month
        self._rows = {
            name: {key: figures for key, figures in each.items() if key.day.startswith(month)}
            for name, each in rows.items()
        }

    @property
    def _month(self) -> str:
        return self._question.begin.strftime(MONTH)

    async def _list(
        self, client: KubeClient, resource: Resource, type_: type[Any], namespace: str
    ) -> list[Any]:
        read = partial(client.list, resource, decode=partial(decode, type_))
        try:
            return list((await read()).items)
        except NotFound:
            return []
        except Forbidden:
            if not namespace:
                raise
        self._narrowed = namespace
        return list((await read(namespace=namespace)).items)

    def describe(self) -> dict[str, Any]:
        """Return the document of the page; times are device-seconds."""
        by = self._question.by
        sums = add_up(self._rows, [by])
        names = _order_resources(sums)
        asked = self._question.resource
        resource = asked if asked in names or not names else names[0]
        months = {report.metadata.name for report in self._reports}
        rows = self._list_of(resource, [by])
        return {
            "month": self._month,
            "months": sorted(months | {self._month, self._now.strftime(MONTH)}, reverse=True)[
                :MAX_MONTHS
            ],
            "from": format_time(self._question.begin),
            "to": format_time(self._until),
            "days": ((self._question.end - self._question.begin).days),
            "through": format_time(self._through) if self._through else None,
            "gapSeconds": sum(
                report.status.gap_seconds
                for report in self._reports
                if report.metadata.name == self._month
            ),
            "namespace": self._narrowed,
            "column": COLUMNS[by],
            "resource": resource,
            "resources": names[:MAX_RESOURCES],
            "total": next(iter(self._list_of(resource, [])), None),
            "rows": rows[:MAX_ROWS],
            "more": _sum_rows(rows[MAX_ROWS:]),
            "byDay": self._list_days(resource, [row[COLUMNS[by]] for row in rows[:MAX_NAMES]]),
        }

    def _list_days(self, resource: str, names: Collection[str]) -> list[dict[str, Any]]:
        """Return a row for each day and name, and one for each day of all other names: None."""
        by = self._question.by
        column = COLUMNS[by]
        rows = self._list_of(resource, ["day", by])
        rest: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if row[column] not in names:
                rest.setdefault(row["day"], []).append(row)
        kept = [row for row in rows if row[column] in names]
        others = {"resource": resource, column: None}
        return kept + [{"day": day, **others, **(_sum_rows(of) or {})} for day, of in rest.items()]

    def _list_of(self, resource: str, by: list[str]) -> list[dict[str, Any]]:
        rows = list_dicts(add_up(self._rows, by), by)
        return [row for row in rows if row["resource"] == resource]

    def as_csv(self) -> str:
        """Return what ``multiqueue usage -o csv`` would for this month, all resources."""
        by = [self._question.by]
        rows = list_dicts(add_up(self._rows, by), by)
        return write_csv(rows, by, since=self._question.begin, now=self._until)

    @property
    def file_name(self) -> str:
        """The name under which a browser keeps the CSV."""
        return f"usage-{self._month}-by-{self._question.by}.csv"


def _sum_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, int] | None:
    """Return the sums of rows, and as ``rows`` how many there are; None if there are none."""
    figures = [name for name in rows[0] if name == "holds" or name.endswith("_s")] if rows else []
    sums = {name: sum(row[name] for row in rows) for name in figures}
    return {"rows": len(rows), **sums} if rows else None


def _order_resources(sums: UsageSums) -> list[str]:
    """Return the resources: accelerators first, what was reserved most first."""
    reserved: dict[str, float] = {}
    for _, resource, figures in sums:
        reserved[resource] = reserved.get(resource, 0.0) + figures.reserved
    return sorted(reserved, key=lambda name: (not is_accelerator(name), -reserved[name], name))


async def read_owners(client: KubeClient) -> dict[str, str]:
    """Return the owners of the namespaces with the label `multiqueue.dev/owner`, by namespace.

    Returns:
        Nothing if the namespaces may not be listed.
    """
    try:
        return list_owners((await client.list(NAMESPACES, label_selector=OWNER)).items)
    except Forbidden:
        return {}
