"""Status patches of queues and Cohorts in wire format, from the engine's states. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from multiqueue.api.conditions import ACTIVE, set_condition
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1beta2 import (
    AdmissionFairSharingStatus,
    ClusterQueue,
    ClusterQueueStatus,
    Cohort,
    FairSharingStatus,
    FlavorUsage,
    LocalQueue,
    LocalQueueFairSharingStatus,
    LocalQueueFlavorUsage,
    LocalQueueResourceUsage,
    LocalQueueStatus,
    ResourceUsage,
)
from multiqueue.engine.state import ClusterQueueState, CohortState, LocalQueueState, Usage
from multiqueue.jobs.workload_wire import diff
from multiqueue.lib.amount import Amount
from multiqueue.model.past_usage import ConsumedResources
from multiqueue.model.resources import CPU, format_amount

StatusT = TypeVar("StatusT", ClusterQueueStatus, LocalQueueStatus)

_COUNTS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")


def cluster_queue_patch(
    queue: ClusterQueue, state: ClusterQueueState, now: datetime
) -> dict[str, Any]:
    """Return the merge patch for ``/status``; empty if nothing changed."""
    status = _with_state(queue.status, queue.metadata.generation, state, now, flavor_usage)
    share = state.weighted_share
    sharing = None if share is None else FairSharingStatus(weighted_share=share.reported)
    return _patch(queue.status, msgspec.structs.replace(status, fair_sharing=sharing))


def cohort_patch(cohort: Cohort, state: CohortState) -> dict[str, Any]:
    """Return the merge patch for ``/status``; empty if nothing changed."""
    share, written = state.weighted_share, cohort.status.fair_sharing
    if share is None or (written is not None and written.weighted_share == share.reported):
        return {}
    return {"fairSharing": {"weightedShare": share.reported}}


def local_queue_patch(
    queue: LocalQueue,
    state: LocalQueueState,
    now: datetime,
    consumed: ConsumedResources | None = None,
) -> dict[str, Any]:
    """Return the merge patch for ``/status``; empty if nothing changed.

    Args:
        queue: The LocalQueue as last seen.
        state: Its state in the engine.
        now: The time for changed conditions.
        consumed: Its past usage; None if that is not sampled.
    """
    status = _with_state(queue.status, queue.metadata.generation, state, now, _local_usage)
    return _patch(queue.status, _with_consumed(status, consumed))


def _with_consumed(
    status: LocalQueueStatus, consumed: ConsumedResources | None
) -> LocalQueueStatus:
    sharing = status.fair_sharing or LocalQueueFairSharingStatus()
    known = sharing.admission_fair_sharing_status
    if consumed is None:
        return status
    if known is not None and not known.consumed_resources and not consumed.by_resource:
        return status  # still no usage; a new timestamp alone is not worth a write
    written = decode(AdmissionFairSharingStatus, consumed.to_wire())
    return msgspec.structs.replace(
        status,
        fair_sharing=msgspec.structs.replace(sharing, admission_fair_sharing_status=written),
    )


def waiting_by_status(state: ClusterQueueState | LocalQueueState) -> dict[str, int]:
    """Return how many workloads wait, by whether they may be tried now; for metrics."""
    return {"active": state.pending - state.inadmissible, "inadmissible": state.inadmissible}


def natural(resource: str, amount: Amount) -> float:
    """Return the amount in cores or bytes, as metrics have it."""
    return amount / 1000 if resource == CPU else amount


def flavor_usage(usage: Usage) -> tuple[FlavorUsage, ...]:
    """Return usage as quantities in wire format: flavors as in the spec, resources by name."""
    return tuple(
        FlavorUsage(
            name=flavor,
            resources=tuple(
                ResourceUsage(
                    name=resource,
                    total=format_amount(resource, used.total),
                    borrowed=format_amount(resource, used.borrowed),
                )
                for resource, used in sorted(resources.items())
            ),
        )
        for flavor, resources in usage.items()
    )


def _local_usage(usage: Usage) -> tuple[LocalQueueFlavorUsage, ...]:
    """Return the same of a LocalQueue, which does not borrow."""
    return tuple(
        LocalQueueFlavorUsage(
            name=flavor.name,
            resources=tuple(
                LocalQueueResourceUsage(name=used.name, total=used.total)
                for used in flavor.resources
            ),
        )
        for flavor in flavor_usage(usage)
    )


def _with_state(
    status: StatusT,
    generation: int,
    state: ClusterQueueState | LocalQueueState,
    now: datetime,
    show: Callable[[Usage], tuple[FlavorUsage, ...] | tuple[LocalQueueFlavorUsage, ...]],
) -> StatusT:
    return msgspec.structs.replace(
        status,
        conditions=set_condition(
            status.conditions,
            type_=ACTIVE,
            status=state.active,
            reason=state.reason,
            message=state.message,
            now=now,
            observed_generation=generation,
        ),
        flavors_reservation=show(state.reservation),
        flavors_usage=show(state.usage),
        pending_workloads=state.pending,
        reserving_workloads=state.reserving,
        admitted_workloads=state.admitted,
    )


def _patch(
    before: ClusterQueueStatus | LocalQueueStatus, after: ClusterQueueStatus | LocalQueueStatus
) -> dict[str, Any]:
    if before == after:
        return {}
    # The first status has everything, zeros too, because tools show them.
    present: Mapping[str, Any] = _wire(before) if before.conditions else {}
    return diff(present, _wire(after))


def _wire(status: ClusterQueueStatus | LocalQueueStatus) -> dict[str, Any]:
    wire = {**dict.fromkeys(_COUNTS, 0), **encode(status)}
    if isinstance(status, ClusterQueueStatus) and status.fair_sharing is not None:
        wire["fairSharing"] = {"weightedShare": status.fair_sharing.weighted_share}
    past_usage = wire.get("fairSharing", {}).get("admissionFairSharingStatus")
    if past_usage is not None:
        past_usage.setdefault("consumedResources", {})  # required, even if empty
    return wire
