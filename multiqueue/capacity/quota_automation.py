"""Computes a ClusterQueue's quota from the quotas of its jobs' workers. Pure.

Parity: M-200 to M-203. Deviates: an unreachable worker counts with its last known quotas until it
is given up (M-205), because its jobs still hold the manager's quota.
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
        totals: The sum over its ClusterQueues, each counted once; None if it is not known.
        is_unreadable: Whether it answers, but its queues cannot be read.
    """

    cluster: str
    totals: Totals | None = None
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaVerdict:
    """The condition and the quotas that the ClusterQueue must have.

    Attributes:
        reason: The reason of the condition.
        message: The message of the condition.
        nominal: By resource, in the order of the covered resources; None: leave the quotas alone.
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
    """Return the percentage of the workers' quotas that a MultiKueueConfig asks for.

    A gang that waits until one worker has room for all of it holds the manager's quota meanwhile.
    With more than 100 percent, other Workloads can use the rest of the workers' room.

    Raises:
        ValueError: The annotation is no such number; the text names it and says what to write.
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
    """Return the quotas that a ClusterQueue must have.

    If a worker was not connected since the manager started, quotas may only grow: its quotas are
    not known, and may be in use.

    Args:
        queue: The current ClusterQueue.
        shares: What the workers have.
        percent: The percentage of that to use; results are rounded down.
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
    """Return the sum of the nominal quotas; limits and cohorts do not count."""
    total: dict[str, Amount] = {}
    for queue in queues:
        for group in queue.resource_groups:
            for flavor in group.flavors:
                for resource, quota in flavor.quotas.items():
                    total[resource] = add(total.get(resource, 0), quota.nominal)
    return total


def change_of(queue: ClusterQueue, nominal: Totals) -> list[dict[str, object]] | None:
    """Return ``spec.resourceGroups`` with these quotas; None if it already has them."""
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
