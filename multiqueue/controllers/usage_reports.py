"""Writes UsageReports: every five minutes, one for each namespace that held quota meanwhile.

A report says until when everything is counted. Each write adds what the holds of the namespace used
since then, and moves that time on, so nothing counts twice however often leaders change. A standby
remembers the holds that ended, too. Those of which no Workload tells any more are written in
between as ``recentRows`` of the last report that says such a time, so that no reader sees sums
fall. A new leader adds what only the one before told there. A hold that ended while no manager
looked, and that nothing tells any more, counts until the last write; ``gapSeconds`` says how long
that was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec
import structlog

from multiqueue.api.names import key_of
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1alpha1 import UsageReport, UsageReportRow, UsageReportStatus
from multiqueue.api.v1alpha1.usage_report import MAX_ROWS
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import ObjectMeta, format_time, parse_time
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.errors import KubeError, NamespaceTerminating, NotFound
from multiqueue.kube.resources import USAGE_REPORTS
from multiqueue.model.owners import find_owner
from multiqueue.views.usage import (
    Hold,
    UsageRows,
    add_hold,
    add_rows,
    end_hold,
    read_hold,
    read_rows,
    subtract_rows,
    tells,
    write_rows,
)

WRITE_SECONDS = 300.0
RECENT_SECONDS = 10.0
"""How long what a deleted Workload used may be missing; a part of `WRITE_SECONDS`."""
SPREAD_SECONDS = 0.5
"""Pause after each namespace: if more than 600 have holds, all of them take over five minutes."""
LAG = timedelta(seconds=30)
"""What is younger is not counted yet: its end may not have arrived here."""
MAX_ENDED = 20_000
"""Ended holds that are remembered until they are written; the oldest go first."""
SEEN_LATELY = timedelta(minutes=10)
"""A pause between two writes that is no gap."""
KEPT_MONTHS = 4
"""A report is deleted when the fourth month after its own begins: after 92 days at least."""

log = structlog.get_logger("multiqueue.usage")


class EndedHolds:
    """The holds that have ended, in order and by namespace.

    Args:
        holds: The first ones.
        most: How many are remembered; the oldest go first.
    """

    def __init__(self, holds: Iterable[Hold] = (), *, most: int = MAX_ENDED) -> None:
        self._most = most
        self._all: deque[Hold] = deque()
        self._by_namespace: dict[str, deque[Hold]] = {}
        for hold in holds:
            self.add(hold)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._all)

    def add(self, hold: Hold) -> None:
        """Remember a hold."""
        if len(self._all) == self._most:
            oldest = self._all.popleft().namespace
            self._by_namespace[oldest].popleft()
        self._all.append(hold)
        self._by_namespace.setdefault(hold.namespace, deque()).append(hold)

    def list_of(self, namespace: str) -> list[Hold]:
        """Return those of a namespace."""
        return list(self._by_namespace.get(namespace, ()))


class UsageReports:
    """Keeps the UsageReports of all namespaces.

    Create it before the informers run: a standby remembers holds that end.

    Args:
        context: The manager's context.
        most_rows: How many rows a report may have.
    """

    name = "usage-reports"

    def __init__(self, context: ManagerContext, *, most_rows: int = MAX_ROWS) -> None:
        self._context = context
        self._most_rows = most_rows
        self._client = context.client
        self._open: dict[str, set[str]] = {}
        self._ended = EndedHolds()
        self._known: dict[str, UsageReport] = {}
        self._vanished: set[str] = set()
        self._before: list[Hold] = []
        """Vanished holds of which the leader before may have told, too."""
        self._inherited: dict[str, tuple[str, UsageRows]] = {}
        """By namespace: what only the leader before told, and since when (`_inherit`)."""
        self._began = context.clock.now()
        context.informers.workloads.add_handler(self._on_workload)

    async def run(self) -> None:
        """Write until cancelled."""
        self._known.clear()
        self._inherited.clear()
        await wait_settled(self._context.informers.workloads, self._context.informers.namespaces)
        await asyncio.sleep(RECENT_SECONDS)  # what the leader before told has arrived here, too
        self._before = self._list_vanished(self._ended)
        time = asyncio.get_running_loop().time
        due = time() + WRITE_SECONDS - RECENT_SECONDS
        while True:
            if time() < due:
                await self._write_recent(due)
            else:
                due = time() + WRITE_SECONDS
                await self.write()
            await asyncio.sleep(min(RECENT_SECONDS, max(0.0, due - time())))

    async def write(self) -> None:
        """Bring the reports of all namespaces with holds up to date."""
        now = self._context.clock.now().astimezone(UTC).replace(microsecond=0) - LAG
        ended = {hold.namespace for hold in self._ended}
        written: set[str] = set()
        for namespace in sorted({*ended, *(name for name, keys in self._open.items() if keys)}):
            if await self._try_write(namespace, self._write_namespace(namespace, now)):
                written.add(namespace)
        self._ended = EndedHolds(
            hold for hold in self._ended if hold.namespace not in written or _end_of(hold) > now
        )
        self._before = [hold for hold in self._before if hold.namespace not in written]

    async def _try_write(self, namespace: str, writing: Awaitable[None]) -> bool:
        """Write to a namespace; return whether that need not be tried again."""
        self._vanished.discard(namespace)
        try:
            await writing
        except (NotFound, NamespaceTerminating):
            log.debug("namespace goes or is gone, or no UsageReports here", namespace=namespace)
        except KubeError as error:
            self._known.pop(namespace, None)
            self._vanished.add(namespace)
            log.warning("usage not written, trying again", namespace=namespace, error=error)
            return False
        await asyncio.sleep(SPREAD_SECONDS)
        return True

    async def _write_recent(self, due: float) -> None:
        """Write what ended since the last write, where Workloads do not tell it any more.

        Args:
            due: When the loop's clock says this, all is written anyway, and this one stops.
        """
        for namespace in sorted(self._vanished):
            if asyncio.get_running_loop().time() >= due:
                break
            await self._try_write(namespace, self._write_recent_of(namespace))

    async def _write_recent_of(self, namespace: str) -> None:
        now = self._context.clock.now().astimezone(UTC)
        month = datetime(now.year, now.month, 1, tzinfo=UTC)
        vanished = self._list_vanished(self._ended.list_of(namespace))
        _, left = self._inherited.get(namespace, ("", {}))
        if not vanished and not left:
            return
        report = await self._find(namespace, _name(month))
        if not report.status.through:
            # Until the first write of a month, the rest of the last one is missing as well.
            before = await self._find_before(namespace, month)
            report = before if before.status.through else report
        since = parse_time(report.status.through) or month
        rows = self._sum_up(vanished, since)
        add_rows(rows, self._inherit(report, since))
        recent = self._limit(rows)
        if recent == report.status.recent_rows:
            return
        status = msgspec.structs.replace(report.status, recent_rows=recent)
        if not report.metadata.resource_version:
            report = await self._create(namespace, report.metadata.name)
        self._known[namespace] = await self._write_status(report, status)

    def _sum_up(self, holds: Sequence[Hold], since: datetime) -> UsageRows:
        """Return what ended holds used after a time."""
        rows: UsageRows = {}
        self._add(rows, holds, since, self._context.clock.now())
        return rows

    def _limit(self, rows: UsageRows) -> tuple[UsageReportRow, ...]:
        return write_rows(rows)[: self._most_rows]

    def _list_vanished(self, holds: Iterable[Hold]) -> list[Hold]:
        """Return the holds of which no Workload tells any more."""
        store = self._context.informers.workloads.store
        return [
            hold for hold in holds if not tells(store.get(key_of(hold.namespace, hold.name)), hold)
        ]

    def _inherit(self, report: UsageReport, since: datetime) -> UsageRows:
        """Return what recent rows tell of holds that ended before this manager began to look."""
        namespace, through = report.metadata.namespace, report.status.through
        if namespace not in self._inherited:
            own = self._sum_up([h for h in self._before if h.namespace == namespace], since)
            told = read_rows(report.status.recent_rows)
            left = subtract_rows(told, read_rows(write_rows(own)))
            self._inherited[namespace] = through, left
        told_since, rows = self._inherited[namespace]
        return rows if told_since == through else {}  # they are counted once that time moved on

    async def _write_namespace(self, namespace: str, now: datetime) -> None:
        month = datetime(now.year, now.month, 1, tzinfo=UTC)
        holds = list(self._holds_of(namespace))  # at once: each is open, or it has ended
        report = await self._find(namespace, _name(month))
        since = parse_time(report.status.through)
        if since is None:
            # The rest of the last month belongs to its own report.
            before = await self._find_before(namespace, month)
            last = parse_time(before.status.through)
            if last is not None:
                await self._save(before, holds, last, month)
        self._known[namespace] = await self._save(report, holds, since or month, now)

    def _holds_of(self, namespace: str) -> Iterator[Hold]:
        store = self._context.informers.workloads.store
        yield from self._ended.list_of(namespace)
        for key in self._open.get(namespace, ()):
            workload = store.get(key)
            hold = read_hold(workload) if workload is not None else None
            if hold is not None:
                yield hold

    async def _find(self, namespace: str, name: str) -> UsageReport:
        """Return the last part of a month's report; one without a version if it is not stored."""
        known = self._known.get(namespace)
        if known is not None and known.metadata.name.startswith(name):
            return known
        report = await self._read(namespace, name) or _new(namespace, name)
        while report.status.continued_in:
            following, through = report.status.continued_in, report.status.through
            report = await self._read(namespace, following) or _new(namespace, following)
            if not report.status.through:
                status = msgspec.structs.replace(report.status, through=through)
                report = msgspec.structs.replace(report, status=status)
        return report

    async def _find_before(self, namespace: str, month: datetime) -> UsageReport:
        return await self._find(namespace, _name(month - timedelta(days=1)))

    async def _save(
        self, report: UsageReport, holds: Sequence[Hold], since: datetime, until: datetime
    ) -> UsageReport:
        """Add what holds used between two times to a report; return the report as it is stored."""
        namespace = report.metadata.namespace
        inherited = self._inherit(report, since)
        rows = read_rows(report.status.rows)
        add_rows(rows, inherited)
        if self._add(rows, holds, since, until) > self._most_rows and report.status.rows:
            # The next part is named first: whoever finds it missing begins it at the same time.
            following = f"{report.metadata.name[:7]}-{_part(report.metadata.name) + 1}"
            ended = msgspec.structs.replace(report.status, continued_in=following, recent_rows=())
            await self._write_status(report, ended)
            report, rows = _new(namespace, following, report.status.through), {}
            add_rows(rows, inherited)
            self._add(rows, holds, since, until)
        gap = self._began - since if report.status.through else timedelta()
        # Once a month is over, the report of the next one counts what comes later.
        goes_on = report.metadata.name.startswith(_name(until))
        recent = self._sum_up(self._list_vanished(self._ended.list_of(namespace)), until)
        status = UsageReportStatus(
            through=format_time(until),
            gap_seconds=report.status.gap_seconds
            + (int(gap.total_seconds()) if gap > SEEN_LATELY else 0),
            rows=write_rows(rows),
            recent_rows=self._limit(recent) if goes_on else (),
        )
        if not report.metadata.resource_version:
            report = await self._create(namespace, report.metadata.name)
        stored = await self._write_status(report, status)
        self._inherited[namespace] = status.through, {}
        return stored

    def _add(
        self,
        rows: UsageRows,
        holds: Sequence[Hold],
        since: datetime,
        until: datetime,
    ) -> int:
        for hold in holds:
            add_hold(rows, hold, self._owner_of, since, until)
        return len(rows)

    def _owner_of(self, namespace: str) -> str:
        found = self._context.informers.namespaces.store.get(namespace)
        return find_owner(namespace, (found or {}).get("metadata", {}).get("labels"))

    # ------------------------------------------------------------ requests

    async def _read(self, namespace: str, name: str) -> UsageReport | None:
        try:
            return await self._client.get(
                USAGE_REPORTS, name, namespace=namespace, decode=partial(decode, UsageReport)
            )
        except NotFound:
            return None

    async def _create(self, namespace: str, name: str) -> UsageReport:
        body = {
            "apiVersion": USAGE_REPORTS.api_version,
            "kind": USAGE_REPORTS.kind,
            "metadata": {"name": name},
        }
        created = await self._client.create(
            USAGE_REPORTS, body, namespace=namespace, decode=partial(decode, UsageReport)
        )
        with contextlib.suppress(NotFound):
            await self._client.delete(USAGE_REPORTS, _outdated(name), namespace=namespace)
        return created

    async def _write_status(self, report: UsageReport, status: UsageReportStatus) -> UsageReport:
        body = {
            "metadata": {"resourceVersion": report.metadata.resource_version},
            "status": {"recentRows": None, **encode(status)},
        }
        return await self._client.patch(
            USAGE_REPORTS,
            report.metadata.name,
            body,
            namespace=report.metadata.namespace,
            subresource="status",
            decode=partial(decode, UsageReport),
        )

    # ------------------------------------------------------------ events

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        workload = new or old
        assert workload is not None
        if old is not None:
            now = self._context.clock.now().replace(microsecond=0)  # as times of the API are
            ended = end_hold(old, new, now)
            if ended is not None:
                self._ended.add(ended)
            if ended is not None or new is None:
                self._vanished.add(workload.metadata.namespace)
        hold = read_hold(new) if new is not None else None
        keys = self._open.setdefault(workload.metadata.namespace, set())
        if hold is not None and hold.ended is None:
            keys.add(workload.metadata.key)
            return
        keys.discard(workload.metadata.key)
        if old is None and hold is not None:
            self._ended.add(hold)  # it finished before this replica began


def _new(namespace: str, name: str, through: str = "") -> UsageReport:
    return UsageReport(
        metadata=ObjectMeta(name=name, namespace=namespace),
        status=UsageReportStatus(through=through),
    )


def _name(month: datetime) -> str:
    return month.strftime("%Y-%m")


def _part(name: str) -> int:
    """Return the number of a part: 1 for ``2026-11``, 2 for ``2026-11-2``."""
    parts = name.split("-")
    return int(parts[2]) if len(parts) > 2 else 1


def _outdated(name: str) -> str:
    year, month = (int(part) for part in name.split("-")[:2])
    months = year * 12 + month - 1 - KEPT_MONTHS
    return f"{months // 12}-{months % 12 + 1:02}"


def _end_of(hold: Hold) -> datetime:
    assert hold.ended is not None
    return hold.ended
