"""The gauges of a queue's accelerators: what it has, holds, borrows and lends, and who starves.

`measure_queue` runs when a queue changed, `LentGpus` when a queue below a cohort did; both at most
once a second, because `StatusTicker` batches changes.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from multiqueue.engine.engine import Engine
from multiqueue.engine.state import ClusterQueueState
from multiqueue.jobs.context import ManagerContext
from multiqueue.lib.amount import UNLIMITED, Amount
from multiqueue.model.resources import is_accelerator
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.views.quota_tree import find_flows, queue_key, sum_lent

NO_FLAVOR = ""
"""The flavor of what waits: it is chosen with the quota."""


def measure_queue(metrics: ManagerMetrics, state: ClusterQueueState) -> None:
    """Set the gauges of one queue. Unlimited quota is +Inf."""
    for flavor, quotas in state.nominal.items():
        resources = [resource for resource in quotas if is_accelerator(resource)]
        if not resources:
            continue
        reserved = [state.reservation[flavor][resource] for resource in resources]
        running = [state.usage[flavor][resource] for resource in resources]
        for kind, amount in (
            ("nominal", sum(quotas[resource] for resource in resources)),
            ("reserved", sum(used.total for used in reserved)),
            ("running", sum(used.total for used in running)),
            ("borrowed", sum(used.borrowed for used in reserved)),
            ("free", sum(state.free[flavor][resource] for resource in resources)),
        ):
            metrics.gpus.child(state.name, flavor, kind).set(_show(amount))
        if not state.root:  # `LentGpus` knows those of a cohort
            metrics.gpus.child(state.name, flavor, "lent").set(0)
    if any(is_accelerator(resource) for quotas in state.nominal.values() for resource in quotas):
        metrics.gpus.child(state.name, NO_FLAVOR, "pending").set(count_pending(state))


def count_pending(state: ClusterQueueState) -> Amount:
    """Return the accelerators that waiting Workloads request."""
    requests = state.pending_requests.items()
    return sum(amount for resource, amount in requests if is_accelerator(resource))


def _show(amount: Amount) -> float:
    return float("inf") if amount >= UNLIMITED else float(amount)


class LentGpus:
    """Sets the gauges of what queues lend, and of queues that starve meanwhile.

    Deviates: S-113 compares the first Workload of a queue with the queue's own unused quota. This
    says starved if any of its Workloads waits for accelerators, so a Workload that is larger than
    its queue's quota counts, too.

    Args:
        context: The manager's context.
        engine: Knows quotas and queues.
    """

    def __init__(self, context: ManagerContext, engine: Engine) -> None:
        self._metrics = context.metrics
        self._now = context.clock.now
        self._engine = engine
        self._starved_since: dict[str, tuple[str, datetime]] = {}
        """By queue, with the cohort that it was in; it counts while the queue is in that one."""

    def measure(self, cohort: str) -> None:
        """Measure the queues directly in a cohort. Cost: O(members of the cohort)."""
        tree = self._engine.parts.cache.tree_of_cohort(cohort)
        node = None if tree is None else tree.cohorts.get(cohort)
        if tree is None or node is None:
            return
        lent = sum_lent(find_flows(tree, node))
        for queue in tree.child_queues.get(cohort, ()):
            found = lent.get(queue_key(queue.name), {})
            total = 0
            for (flavor, resource), slot in queue.node.slot_by_flavor_resource.items():
                if is_accelerator(resource) and slot < queue.node.declared:
                    amount = found.get((flavor, resource), 0)
                    total += amount
                    self._metrics.gpus.child(queue.name, flavor, "lent").set(amount)
            self._note_starved(queue.name, cohort, is_lending=total > 0)

    def _note_starved(self, queue: str, cohort: str, *, is_lending: bool) -> None:
        state = self._engine.cluster_queue_state(queue) if is_lending else None
        if state is None or not state.active or not count_pending(state):
            self._starved_since.pop(queue, None)
        elif self._starved_since.get(queue, ("",))[0] != cohort:
            self._starved_since[queue] = (cohort, self._now())
        self._metrics.starved_seconds.child(queue).set_function(partial(self._find_age, queue))

    def _find_age(self, queue: str) -> float:
        """Return the gauge's value; called in another thread, so it only looks things up."""
        cohort, since = self._starved_since.get(queue, ("", self._now()))
        known = self._engine.parts.cache.queues.get(queue)
        if known is None or known.node.parent is None or known.node.parent.name != cohort:
            return 0.0
        return max(0.0, (self._now() - since).total_seconds())
