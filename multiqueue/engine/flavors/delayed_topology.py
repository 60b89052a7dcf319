"""The flavors whose topology is decided after the admission (E-134)."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.model.cluster_queue import AdmissionCheckInfo
from multiqueue.model.workload import Workload


def delayed_flavors(
    queue: CachedQueue, checks: Mapping[str, AdmissionCheckInfo], workload: Workload
) -> frozenset[str]:
    """Return the flavors whose nodes are in another cluster, or are still to be provisioned."""
    delayed: set[str] = set()
    for rule in queue.spec.checks:
        check = checks.get(rule.name)
        controller = check.controller_name if check is not None else ""
        if controller == MULTIKUEUE_CONTROLLER:
            return frozenset(queue.flavors())
        if controller == PROVISIONING_REQUEST_CONTROLLER and workload.reservation is None:
            delayed |= rule.on_flavors or set(queue.flavors())
    return frozenset(delayed)
