"""Whether a manager leads: without a leader, states may be outdated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.validation.access import mapping, text
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.manager_names import LEASE
from multiqueue.kube.resources import LEASES
from multiqueue.views.ages import format_age

ALLOWED = timedelta(seconds=30)
"""The maximum age of the last renewal: more than any hand-over or difference of clocks."""


async def find_absence(client: KubeClient, namespace: str) -> str:
    """Return since when no manager leads; empty if one does, or if that is unknown.

    It is unknown without leader election, which means no Lease, or if the user may not read it.
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
