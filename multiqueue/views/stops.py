"""What is thrown away if Workloads are stopped now, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from multiqueue.api.v1beta2 import Workload
from multiqueue.lib.words import count_of
from multiqueue.model.resources import is_accelerator
from multiqueue.views.usage import read_hold


@dataclass(slots=True)
class StopSum:
    """Sums over the Workloads that hold quota.

    Units: ``device_seconds`` and ``core_seconds`` are the time since the pods were ready (if nobody
    said so: since the admission), times the devices; of Workloads without devices, the cores.
    """

    jobs: int = 0
    pods: int = 0
    devices: int = 0
    device_seconds: float = 0.0
    core_seconds: float = 0.0


def sum_stops(workloads: Iterable[Workload], now: datetime) -> StopSum:
    """Return what a stop of these Workloads would throw away; those without quota lose nothing."""
    found = StopSum()
    for workload in workloads:
        hold = read_hold(workload)
        if hold is None or hold.ended is not None:
            continue
        assert workload.status.admission is not None, "it holds quota"
        since = hold.ready or hold.admitted
        seconds = max(0.0, (now - since).total_seconds()) if since is not None else 0.0
        found.jobs += 1
        found.pods += sum(each.count or 0 for each in workload.status.admission.pod_set_assignments)
        for _, resource, amount in hold.amounts:
            if is_accelerator(resource):
                found.devices += int(amount)
                found.device_seconds += amount * seconds
            else:
                found.core_seconds += amount * seconds
    return found


def say_stops(found: StopSum) -> str:
    """Return the sums as one sentence without its end."""
    if not found.jobs:
        return "no job is stopped"
    parts = [f"{count_of(found.jobs, 'job')} with {count_of(found.pods, 'pod')}"]
    if found.devices:
        parts.append(f" on {count_of(found.devices, 'device')}")
    lost = [
        f"{_hours(seconds)} {unit}"
        for seconds, unit in (
            (found.device_seconds, "GPU-hours"),
            (found.core_seconds, "core-hours"),
        )
        if round(seconds)
    ]
    work = f"; {' and '.join(lost)} are lost, but for what the jobs saved" if lost else ""
    return f"{''.join(parts)} {'is' if found.jobs == 1 else 'are'} stopped{work}"


def _hours(seconds: float) -> str:
    hours = round(seconds / 3600, 2)
    return f"{hours:,.2f}" if hours else "under 0.01"
