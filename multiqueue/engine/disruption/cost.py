"""What a stop throws away.

Pure. Units: device-seconds and seconds; times are whole seconds since the epoch, as the API keeps
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.queues.entry import Entry
from multiqueue.lib.amount import Amount
from multiqueue.model import turn
from multiqueue.model.disruption_policy import CLOCK_SKEW, CostRule, SaveHabits

_RELIABLE = 3, 2
"""A job that reports counts by its interval for 3/2 of it after the last report."""

NO_HABITS = SaveHabits()


class Loss(NamedTuple):
    """What one Workload loses by a stop now.

    Shape: ``lost`` is the time since its work was saved, ``counted`` the part of it that decisions
    count, ``restart`` the time that it needs to begin again.
    """

    devices: int
    lost: int
    counted: int
    restart: int

    @property
    def cost(self) -> int:
        """The device-seconds that decisions and budgets count."""
        return self.devices * (self.counted + self.restart)

    @property
    def true_loss(self) -> int:
        """The device-seconds that have to be done again."""
        return self.devices * (self.lost + self.restart)

    @property
    def rank(self) -> int:
        """The cost by whole minutes, so that an order by it stays for a minute."""
        return self.devices * (self.counted // 60 * 60 + self.restart)


def count_devices(usage: Mapping[FlavorResource, Amount]) -> int:
    """Return the accelerators in use; without any, one device for each begun 64 CPUs."""
    return turn.count_devices((resource, amount) for (_, resource), amount in usage.items())


def started_at(entry: Entry) -> int | None:
    """Return since when a holder of quota is admitted; None if it is not."""
    if not entry.admitted:
        return None
    reservation = entry.workload.reservation
    if reservation is None or reservation.admitted_at is None:
        return entry.reserved_at  # its write is on its way
    return int(reservation.admitted_at.timestamp())


def find_loss(entry: Entry, saved_at: int | None, rule: CostRule, now: int) -> Loss:
    """Return what a holder of quota loses by a stop now; nothing if it is not admitted.

    Args:
        entry: the holder.
        saved_at: when its job last reported a checkpoint; None if it never did.
        rule: of the policy of its queue.
        now: the time.
    """
    devices, started = count_devices(entry.usage), started_at(entry)
    if started is None:
        return Loss(devices, 0, 0, 0)
    habits = entry.workload.saves or NO_HABITS
    restart = rule.restart if habits.restart is None else min(habits.restart, rule.longest_restart)
    reported = _reported_in_stay(saved_at, started, now)
    mark = reported if reported is not None else _presumed_mark(started, habits, restart, now)
    lost = max(0, now - mark)
    counted = min(lost, _cap(habits, reported, lost, rule))
    saving = habits.save_seconds
    if saving is None and entry.notice is None and habits.notice_seconds is not None:
        is_long_enough = habits.notice_seconds <= habits.notice_length(rule.longest_notice)
        saving = habits.notice_seconds if is_long_enough else None
    if saving is not None:
        counted = min(counted, saving)
    return Loss(devices, lost, counted, restart)


def _reported_in_stay(saved_at: int | None, started: int, now: int) -> int | None:
    """Return the report if it is about this stay; a clock may be a little ahead."""
    if saved_at is None or not started < saved_at <= now + CLOCK_SKEW:
        return None
    return min(saved_at, now)


def _presumed_mark(started: int, habits: SaveHabits, restart: int, now: int) -> int:
    """Return when work was last saved by what the job declares, without a report in this stay."""
    begun = started + restart
    if habits.interval is None or now < begun:
        return started
    return begun + (now - begun) // habits.interval * habits.interval


def _cap(habits: SaveHabits, reported: int | None, lost: int, rule: CostRule) -> int:
    """Return the most lost work that counts: an interval counts only where reports keep coming."""
    interval = habits.interval
    if interval is None or reported is None:
        return rule.undeclared
    times, parts = _RELIABLE
    if lost * parts > interval * times:
        return rule.undeclared
    return min(interval, rule.longest_interval)
