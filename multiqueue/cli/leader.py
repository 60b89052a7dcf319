"""Whether a manager leads: what states say is worth as much as whoever keeps them up to date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.validation.access import mapping, text
from multiqueue.cli.projection.prerequisites import LEASE
from multiqueue.cli.views.ages import format_age
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import LEASES

ALLOWED = timedelta(seconds=30)
"""How old the last sign of a leader may be: longer than any hand-over, and than clocks differ."""


async def find_absence(client: KubeClient, namespace: str) -> str:
    """Say since when no manager leads; empty where one does, or that cannot be told.

    Without leader election there is no Lease, and some may not read it.
    """
    try:
        lease = await client.get(LEASES, LEASE, namespace=namespace)
    except (NotFound, Forbidden):
        return ""
    now = datetime.now(UTC)
    spec = mapping(lease, "spec")
    renewed = parse_time(text(spec.get("renewTime")))
    if renewed is None or (text(spec.get("holderIdentity")) and now - renewed < ALLOWED):
        return ""
    return (
        f"no manager leads: the last sign of one is {format_age(renewed, now)} old "
        f"(Lease {namespace}/{LEASE}); what it keeps up to date is as it was then"
    )
