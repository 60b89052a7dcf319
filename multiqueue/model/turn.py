"""When the turn of a waiting Workload is: those that take less may pass it for a while. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from multiqueue.lib.amount import Amount
from multiqueue.model.resources import CPU, is_accelerator

SOME_TIME = timedelta(hours=1)
"""The assumed runtime if nothing is known. It is the same for all jobs, so it only scales."""
LONGEST = timedelta(days=30)
"""The longest time for which others may pass a Workload."""
DEVICE_CPUS = 64_000
"""CPUs (in milli) that count as one device where a Workload has no accelerator."""
_MICROSECOND = timedelta(microseconds=1)


def find_head_start(devices: int, runtime: timedelta, percent: int) -> timedelta:
    """Return for how long after a Workload's submission later ones may pass it (P-67).

    A later Workload passes if its own turn comes before. So 8 GPUs for an hour let 1 GPU for an
    hour pass that is submitted in the next 7 hours, with 100 percent.

    Args:
        devices: How many devices it needs.
        runtime: How long it is expected to run.
        percent: The time, as a percentage of its device time.
    """
    spent = runtime // _MICROSECOND * max(1, devices) * percent // 100
    return min(LONGEST, timedelta(microseconds=min(spent, LONGEST // _MICROSECOND)))


def count_devices(amounts: Iterable[tuple[str, Amount]]) -> int:
    """Return the accelerators among amounts of resources; without any, one for each 64 CPUs."""
    devices = cpus = 0
    for resource, amount in amounts:
        if is_accelerator(resource):
            devices += amount
        elif resource == CPU:
            cpus += amount
    return devices if devices > 0 else max(1, -(-cpus // DEVICE_CPUS))
