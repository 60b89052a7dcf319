"""Why no cluster can hold a Workload, in words."""

from __future__ import annotations

from multiqueue.api.conditions import Reason
from multiqueue.capacity.fleet_capacity import FleetStanding
from multiqueue.plugins import Fit, Limit, Outlook
from multiqueue.plugins.limits import NO_FLAVOR
from tests.unit.plugins.test_capacity import GPU, make_workload

LACKING = Fit(outlook=Outlook.NEVER, reason=f"{NO_FLAVOR} accelerator=h100")
LIMIT = Limit(resource=GPU, asked=6, most=4)
SMALL = Fit(outlook=Outlook.NEVER, reason=str(LIMIT), limit=LIMIT)


def explain(**never: Fit) -> tuple[Reason, str]:
    found = FleetStanding(never=never, count=len(never)).explain(make_workload(gpus=6))
    return found.reason, found.words


def test_clusters_without_the_hardware_are_not_named_beside_one_that_has_it() -> None:
    words = f"no worker can hold 6 x {GPU}: h100 has at most 4"
    assert explain(a100=LACKING, h100=SMALL) == (Reason.EXCEEDS_MAX_QUOTA, words)


def test_if_no_cluster_has_the_hardware_all_are_named() -> None:
    words = "no worker can run this workload: a100 has no flavor for accelerator=h100"
    assert explain(a100=LACKING) == (Reason.NO_MATCHING_FLAVOR, words)
