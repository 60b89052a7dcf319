"""The time that decides a workload's position among those of equal priority (E-13)."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from multiqueue.api.conditions import Reason, WorkloadCondition, find_condition
from multiqueue.api.v1beta2 import Workload

_NEXT = timedelta(milliseconds=1)
"""Puts a workload that lost borrowed quota behind the one that got it."""


class RequeuingTimestamp(StrEnum):
    """``waitForPodsReady.requeuingStrategy.timestamp`` of the Configuration."""

    EVICTION = "Eviction"
    CREATION = "Creation"


def queue_order_at(
    workload: Workload, timestamp: RequeuingTimestamp, *, reclaimed_last: bool = False
) -> datetime:
    """Return the creation time, or the eviction time if that eviction moves it to the back.

    A preempted or stopped workload, or one with a failed node, keeps its creation time. With
    ``reclaimed_last`` (priority does not count between queues), a workload whose borrowed quota was
    reclaimed gets the time of that preemption.
    """
    evicted = find_condition(workload.status.conditions, WorkloadCondition.EVICTED)
    if evicted is not None and evicted.status == "True":
        by_check = evicted.reason == Reason.ADMISSION_CHECK
        by_timeout = evicted.reason == Reason.PODS_READY_TIMEOUT
        if by_check or (by_timeout and timestamp is RequeuingTimestamp.EVICTION):
            return evicted.transitioned_at
    preempted = find_condition(workload.status.conditions, WorkloadCondition.PREEMPTED)
    if (
        reclaimed_last
        and preempted is not None
        and preempted.status == "True"
        and preempted.reason == Reason.IN_COHORT_RECLAIM_WHILE_BORROWING
    ):
        return preempted.transitioned_at + _NEXT
    return workload.metadata.created_at
