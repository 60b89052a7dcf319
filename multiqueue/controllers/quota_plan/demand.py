"""Measures the demand of a plan's queues from Workloads. Pure.

Demand at a time is what Workloads hold, and what those asked for that waited then and ran later
for a minute at least (P-104). So thousands of jobs that are submitted and deleted are no demand,
and demand is complete only after the longest wait that counts. Until then samples are kept singly.

UsageReports cannot tell this: they have sums of days, and nothing about waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from multiqueue.api.declarations import parse_flag, read
from multiqueue.api.names import NON_PREEMPTIBLE
from multiqueue.api.v1alpha1 import PlanDemand
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.controllers.quota_plan.histogram import (
    DemandHistogram,
    decay_of,
    format_histogram,
    parse_histogram,
)
from multiqueue.controllers.quota_plan.propose import (
    SAMPLE_EVERY,
    MeasuredDemand,
    QuotaKey,
)
from multiqueue.controllers.transitions import queued_at
from multiqueue.lib.amount import Amount
from multiqueue.lib.digits import is_number
from multiqueue.model.resources import parse_request
from multiqueue.views.usage import read_hold

RAN_FOR = timedelta(minutes=1)
"""A Workload that ran for less has not shown that it wanted to run."""
LONGEST_HOLE = timedelta(hours=1)
"""Samples of a shorter time without a manager are made afterwards: the Workloads still tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaStay:
    """One time for which a Workload held quota, with the wait before.

    ``non_preemptible_for`` is the limit of its run in seconds if it asks that nobody stops it, else
    0.
    """

    queue: str
    amounts: Mapping[tuple[str, str], Amount]
    queued: datetime
    begun: datetime
    ended: datetime | None
    non_preemptible_for: int = 0

    def is_over(self, now: datetime) -> bool:
        """Whether nothing is held any more."""
        return self.ended is not None and self.ended <= now


def read_stay(workload: Workload) -> QuotaStay | None:
    """Return what a Workload holds, or held until it finished; None without quota."""
    hold, admission = read_hold(workload), workload.status.admission
    if hold is None or admission is None:
        return None
    amounts: dict[tuple[str, str], Amount] = {}
    for pod_set in admission.pod_set_assignments:
        for resource, quantity in pod_set.resource_usage.items():
            place = pod_set.flavors.get(resource, ""), resource
            amounts[place] = amounts.get(place, 0) + parse_request(resource, quantity)
    asks = read(workload.metadata.annotations, NON_PREEMPTIBLE, parse_flag)
    return QuotaStay(
        queue=hold.cluster_queue,
        amounts=amounts,
        queued=min(queued_at(workload), hold.begun),
        begun=hold.begun,
        ended=hold.ended,
        non_preemptible_for=(workload.spec.maximum_execution_time_seconds or 0) if asks else 0,
    )


class _Series(NamedTuple):
    since: datetime
    histogram: DemandHistogram
    recent: list[Amount]
    """The last samples, the oldest first; the last one is of the time of the whole."""


@dataclass(slots=True)
class DemandRecord:
    """The demand of all quotas of a plan, as far as it is measured.

    Attributes:
        until: The time of the last sample; None before the first one.
        series: By quota.
    """

    until: datetime | None = None
    series: dict[QuotaKey, _Series] = field(default_factory=dict)

    def sample(
        self,
        keys: Iterable[QuotaKey],
        stays: Sequence[QuotaStay],
        *,
        now: datetime,
        credit: timedelta,
        half_life: timedelta,
    ) -> bool:
        """Take the samples that are due; return whether there were any.

        Args:
            keys: The quotas of the plan; what is known about others is forgotten.
            stays: What is known about Workloads of its queues.
            now: The current time.
            credit: The most of a wait that counts.
            half_life: After this time a sample counts half.
        """
        if self.until is not None and self.until > now + SAMPLE_EVERY:
            self.until = None  # the clock was set back
        if self.until is not None and now - self.until > LONGEST_HOLE:
            self._close(half_life, now - self.until)
        wanted = set(keys)
        self.series = {key: each for key, each in self.series.items() if key in wanted}
        following = now if self.until is None else self.until + SAMPLE_EVERY
        if following > now:
            return False
        while following <= now:
            for key in wanted - self.series.keys():
                self.series[key] = _Series(following, DemandHistogram(), [])
            self._take(stays, following, credit)
            self._pour(credit, half_life)
            self.until = following
            following += SAMPLE_EVERY
        return True

    def _take(self, stays: Sequence[QuotaStay], at: datetime, credit: timedelta) -> None:
        """Add one sample, and the waits of the Workloads that have now run for long enough."""
        for series in self.series.values():
            series.recent.append(0)
        for stay in stays:
            shown = stay.begun + RAN_FOR
            ran = stay.ended is None or stay.ended >= shown
            is_new = ran and at - SAMPLE_EVERY < shown <= at
            holds = stay.begun <= at and not stay.is_over(at)
            if not is_new and not holds:
                continue
            first = _samples_since(max(stay.queued, stay.begun - credit), at) if is_new else 0
            last = _samples_since(stay.begun, at) if is_new else 0
            for place, amount in stay.amounts.items():
                series_of = self.series.get(QuotaKey(stay.queue, *place))
                if series_of is None:
                    continue
                recent = series_of.recent
                if holds:
                    recent[-1] += amount
                for back in range(last + 1, min(first, len(recent)) + 1):
                    recent[-back] += amount

    def _pour(self, credit: timedelta, half_life: timedelta) -> None:
        """Move samples that no wait can be added to any more into the histograms."""
        keep = int((credit + RAN_FOR) / SAMPLE_EVERY) + 2
        for series in self.series.values():
            while len(series.recent) > keep:
                series.histogram.decay(decay_of(SAMPLE_EVERY, half_life))
                series.histogram.add(series.recent.pop(0))

    def _close(self, half_life: timedelta, hole: timedelta) -> None:
        """Begin anew after a time in which no manager looked."""
        for series in self.series.values():
            for amount in series.recent:
                series.histogram.decay(decay_of(SAMPLE_EVERY, half_life))
                series.histogram.add(amount)
            series.recent.clear()
            series.histogram.decay(decay_of(hole, half_life))
        self.until = None

    def measured(self) -> dict[QuotaKey, MeasuredDemand]:
        """Return the complete part of the demand."""
        return {
            key: MeasuredDemand(since=series.since, histogram=series.histogram)
            for key, series in self.series.items()
        }


def _samples_since(moment: datetime, at: datetime) -> int:
    """Return how many samples were taken from a moment on, up to and with that of ``at``."""
    return max(0, int((at - moment) / SAMPLE_EVERY) + 1) if moment <= at else 0


def write_demand(record: DemandRecord) -> tuple[PlanDemand, ...]:
    """Return the rows of the status."""
    return tuple(
        PlanDemand(
            cluster_queue=key.cluster_queue,
            flavor=key.flavor,
            resource=key.resource,
            since=format_time(series.since),
            histogram=format_histogram(series.histogram),
            recent=" ".join(f"{amount}x{len(list(run))}" for amount, run in groupby(series.recent)),
        )
        for key, series in sorted(record.series.items())
    )


def read_demand(rows: Iterable[PlanDemand], until: str) -> DemandRecord:
    """Read the rows of a status; what is not readable counts as not measured."""
    record = DemandRecord(until=parse_time(until))
    for row in rows:
        since = parse_time(row.since)
        if since is None or record.until is None:
            continue
        recent: list[Amount] = []
        for part in row.recent.split():
            amount, _, count = part.partition("x")
            if is_number(amount) and is_number(count):
                recent.extend([int(amount)] * min(int(count), 1000))
        record.series[QuotaKey(row.cluster_queue, row.flavor, row.resource)] = _Series(
            since, parse_histogram(row.histogram), recent
        )
    return record
