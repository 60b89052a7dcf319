"""Speed, runtime and cost of a job on an option."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from multiqueue.model.turn import SOME_TIME
from multiqueue.plugins.option import Option
from multiqueue.plugins.view import ClusterView, DispatchView, WorkloadView

REFERENCE = 1000
"""The speed of the reference hardware."""


def find_speed(workload: WorkloadView, option: Option) -> int:
    """Return how fast the job runs on an option, in thousandths; its slowest pods count."""
    if not workload.speeds:
        return REFERENCE
    speeds = [speed_on(workload, option.cluster, flavor) for flavor in option.flavors]
    return min(speeds, default=REFERENCE)


def speed_on(workload: WorkloadView, cluster: ClusterView, flavor: str) -> int:
    """Return how fast a job runs on a flavor, in thousandths, by flavor name or node labels."""
    return _look_up(workload.speeds, cluster, flavor)


def find_gain(view: DispatchView, option: Option) -> int:
    """Return the job's speed on an option relative to jobs in general, in thousandths.

    The result is per device: a job that needs half of the devices on this hardware gains twice as
    much. Compare it between options to find the hardware on which the job gains most for the
    device hours that it takes from others.
    """
    cluster = option.cluster
    gains = [
        REFERENCE
        * speed_on(view.workload, cluster, flavor)
        // _look_up(view.usual_speeds, cluster, flavor)
        for flavor in option.flavors
    ]
    asked, taken = view.workload.total(option.scarce), devices_on(view.workload, option)
    return min(gains, default=REFERENCE) * asked // taken if taken else REFERENCE


def _look_up(speeds: Mapping[str, int], cluster: ClusterView, flavor: str) -> int:
    if not speeds:
        return REFERENCE
    if flavor in speeds:
        return speeds[flavor]
    found = cluster.queue.flavors.get(flavor) if cluster.queue is not None else None
    labels = found.node_labels.values() if found is not None else ()
    return next((speeds[value] for value in labels if value in speeds), REFERENCE)


def runtime_on(workload: WorkloadView, option: Option) -> timedelta:
    """Return how long the job is expected to run on an option."""
    expected = workload.runtime.expected if workload.runtime is not None else SOME_TIME
    return expected * REFERENCE / max(1, find_speed(workload, option))


def cost_of(workload: WorkloadView, option: Option) -> int | None:
    """Return what the job costs on an option, in thousandths; None if a price is missing.

    If the job might get several flavors, the most expensive one counts.
    """
    prices = [option.cluster.prices.get(flavor) for flavor in option.flavors]
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices):
        return None
    hours = runtime_on(workload, option) / timedelta(hours=1)
    return round(max(known) * devices_on(workload, option) * hours)


def devices_on(workload: WorkloadView, option: Option) -> int:
    """Return how much of the scarce resource the job takes on an option."""
    scarce = option.scarce
    taken = sum([n for (_, name), n in option.forecast.taken.items() if name == scarce])
    return taken or sum(
        pod_set.requests.get(scarce, 0) * option.fit.pods.get(pod_set.name, pod_set.count)
        for pod_set in workload.pod_sets
    )
