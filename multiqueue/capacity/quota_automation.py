"""The quota of a manager's ClusterQueue from those of the workers that its jobs go to. Pure.

Parity: M-200 to M-203. Deviates: a worker that is out of reach counts with what it was last known
to have until it is given up (M-205): its jobs still hold the manager's quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from multiqueue.api.conditions import AutomationReason
from multiqueue.api.names import QUOTA_PERCENT
from multiqueue.lib.amount import UNLIMITED, Amount, add, clamp
from multiqueue.lib.digits import is_number
from multiqueue.model.cluster_queue import ClusterQueue, FlavorQuotas, Quota, ResourceGroup
from multiqueue.model.resources import format_amount

Totals = Mapping[str, Amount]
"""Nominal quota by resource, over all flavors."""

AUTOMATED = "Automated"
MOST_PERCENT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShare:
    """What one worker has for the LocalQueues of a ClusterQueue.

    Attributes:
        cluster: Its name.
        totals: The sum over its ClusterQueues, each counted once; None where nothing is known.
        is_unreadable: It answers, but its queues cannot be read.
    """

    cluster: str
    totals: Totals | None = None
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaVerdict:
    """What the condition shall say, and the quotas that the ClusterQueue shall have.

    Attributes:
        reason: Of the condition.
        message: Of the condition.
        nominal: By resource, in the order of the covered resources; None: leave them alone.
    """

    reason: AutomationReason
    message: str
    nominal: Totals | None = None

    @property
    def is_automated(self) -> bool:
        """Whether the condition is True."""
        return self.reason is AutomationReason.QUOTA_AUTOMATED


NOT_REQUESTED = QuotaVerdict(
    reason=AutomationReason.NOT_REQUESTED,
    message="The MultiKueueConfig does not ask for quotas that follow the workers",
)


def unsupported(message: str) -> QuotaVerdict:
    """Say why quotas cannot follow the workers."""
    return QuotaVerdict(reason=AutomationReason.UNSUPPORTED_CONFIGURATION, message=message)


def read_percent(annotations: Mapping[str, str]) -> int:
    """Return how much of what workers have the quotas of a MultiKueueConfig shall be, in percent.

    A gang that waits until one worker has room for all of it holds the manager's quota meanwhile;
    with a little more of that than workers have others may use the rest of the room.

    Raises:
        ValueError: the annotation is no such number; the text names it and says what to write.
    """
    text = annotations.get(QUOTA_PERCENT, "").strip().removesuffix("%")
    if not text:
        return 100
    if not is_number(text) or not 1 <= int(text) <= MOST_PERCENT:
        raise ValueError(
            f'annotation {QUOTA_PERCENT} "{annotations[QUOTA_PERCENT]}": write a whole number of '
            f"percent from 1 to {MOST_PERCENT}"
        )
    return int(text)


def decide_quota(
    queue: ClusterQueue, shares: Iterable[WorkerShare], percent: int = 100
) -> QuotaVerdict:
    """Return the quotas that a ClusterQueue shall have.

    While a worker was not seen since the manager started, quotas may grow only: what it has is not
    known, and may be in use.

    Args:
        queue: As it is.
        shares: What workers have.
        percent: How much of that; rounded down.
    """
    groups = queue.resource_groups
    if len(groups) != 1 or len(groups[0].flavors) != 1:
        flavors = sum(len(group.flavors) for group in groups)
        return unsupported(
            "Exactly one resource group with exactly one flavor is needed; there are "
            f"{len(groups)} with {flavors}"
        )
    total: dict[str, Amount] = {}
    unseen = []
    for share in shares:
        if share.is_unreadable:
            return unsupported(f'The queues of cluster "{share.cluster}" cannot be read')
        if share.totals is None:
            unseen.append(share.cluster)
        for resource, amount in (share.totals or {}).items():
            total[resource] = add(total.get(resource, 0), amount)
    total = {name: _part(amount, percent) for name, amount in total.items()}
    covered = groups[0].covered_resources
    if missing := sorted(total.keys() - set(covered)):
        return unsupported(
            "The ClusterQueue does not cover resources that workers have: " + ", ".join(missing)
        )
    current = groups[0].flavors[0].quotas
    least = {name: quota.nominal for name, quota in current.items()} if unseen else {}
    nominal = {name: max(total.get(name, 0), least.get(name, 0)) for name in covered}
    share_of = "" if percent == 100 else f"{percent} % of "
    words = f"The quotas are {share_of}the sum of those of the workers"
    if unseen:
        words += f"; nothing is known of {', '.join(sorted(unseen))} yet"
    return QuotaVerdict(reason=AutomationReason.QUOTA_AUTOMATED, message=words, nominal=nominal)


def _part(amount: Amount, percent: int) -> Amount:
    return amount if amount >= UNLIMITED else clamp(amount * percent // 100)


def sum_up(queues: Iterable[ClusterQueue]) -> Totals:
    """Return the nominal quotas of some ClusterQueues together; limits and cohorts do not count."""
    total: dict[str, Amount] = {}
    for queue in queues:
        for group in queue.resource_groups:
            for flavor in group.flavors:
                for resource, quota in flavor.quotas.items():
                    total[resource] = add(total.get(resource, 0), quota.nominal)
    return total


def change_of(queue: ClusterQueue, nominal: Totals) -> list[dict[str, object]] | None:
    """Return ``spec.resourceGroups`` with these quotas; None where it has them."""
    group = queue.resource_groups[0]
    flavor = group.flavors[0]
    wanted = {resource: Quota(nominal=amount) for resource, amount in nominal.items()}
    if _same(group, flavor, wanted):
        return None
    resources = [
        {"name": resource, "nominalQuota": format_amount(resource, amount)}
        for resource, amount in nominal.items()
    ]
    return [
        {
            "coveredResources": list(group.covered_resources),
            "flavors": [{"name": flavor.name, "resources": resources}],
        }
    ]


def _same(group: ResourceGroup, flavor: FlavorQuotas, wanted: Mapping[str, Quota]) -> bool:
    return set(wanted) == set(group.covered_resources) and dict(flavor.quotas) == dict(wanted)
