"""The quota of a queue by flavor, from the status that the manager writes. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiqueue.cli.queue_objects import QueueObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """One resource of one flavor, in wire quantities; ``nominal`` is empty if it is not known."""

    flavor: str
    resource: str
    nominal: str
    used: str
    borrowed: str

    def to_dict(self) -> dict[str, Any]:
        """Return the row for ``-o json``."""
        return asdict(self)


def list_quota(objects: QueueObjects, cluster_queue: str, local_queue: str = "") -> list[QuotaRow]:
    """Return what a ClusterQueue has, and what is used of it, of a LocalQueue what that uses."""
    found = objects.cluster_queues.get(cluster_queue)
    nominal = {
        (flavor.name, resource.name): str(resource.nominal_quota)
        for group in (found.spec.resource_groups if found else ())
        for flavor in group.flavors
        for resource in flavor.resources
    }
    status = objects.local_queues[local_queue].status if local_queue else None
    usage = status or (found.status if found else None)
    used = {
        (flavor.name, resource.name): (str(resource.total), _borrowed(resource))
        for flavor in (usage.flavors_reservation if usage is not None else ())
        for resource in flavor.resources
    }
    return [
        QuotaRow(
            flavor=flavor,
            resource=resource,
            nominal=nominal.get((flavor, resource), ""),
            used=used.get((flavor, resource), ("0", "0"))[0],
            borrowed=used.get((flavor, resource), ("0", "0"))[1],
        )
        for flavor, resource in (nominal or used)
    ]


def _borrowed(resource: Any) -> str:
    return str(getattr(resource, "borrowed", None) or "0")
