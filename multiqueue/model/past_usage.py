"""Past usage of a LocalQueue, as its status stores it (E-121, E-126)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.lib.quantity import Quantity, parse_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedResources:
    """Usage up to a moment, by resource; older usage counts less."""

    by_resource: Mapping[str, Quantity]
    updated_at: datetime

    def to_wire(self) -> dict[str, Any]:
        """Return ``status.fairSharing.admissionFairSharingStatus`` in wire format."""
        return {
            "consumedResources": {
                name: str(quantity) for name, quantity in sorted(self.by_resource.items())
            },
            "lastUpdate": format_time(self.updated_at),
        }


def build_consumed_resources(obj: api.LocalQueue) -> ConsumedResources | None:
    """Return the past usage in the status of a LocalQueue; None if it has none.

    Raises:
        QuantityError: an amount that no API server accepts.
    """
    sharing = obj.status.fair_sharing
    status = sharing.admission_fair_sharing_status if sharing is not None else None
    updated_at = parse_time(status.last_update) if status is not None else None
    if status is None or updated_at is None:
        return None
    return ConsumedResources(
        by_resource={name: parse_quantity(raw) for name, raw in status.consumed_resources.items()},
        updated_at=updated_at,
    )
