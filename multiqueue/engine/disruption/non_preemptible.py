"""Jobs that nobody may stop for others: they ask for it, and hold little enough (P-30 to P-33).

Which holders of a ClusterQueue that are follows from its usage alone: those that ask for it, in the
order in which they got their quota, as long as they fit into the part that its policy says. So they
never hold more than that part of what the ClusterQueue owns, and everything that it borrowed can be
taken back from others.

Deviates: from P-30. The part is a percentage of the nominal quota, the same for all flavors, so
that it cannot exceed the quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from multiqueue.api.names import MAX_EXEC_TIME_SECONDS
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.disruption.governance import Governance
from multiqueue.engine.disruption.protection import HoldOff
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.lib.amount import Amount
from multiqueue.model.disruption_policy import DisruptionRules, NonPreemptibleRule, format_seconds
from multiqueue.model.resources import accelerators_of, format_amount
from multiqueue.model.workload import Workload

Usage = Mapping[FlavorResource, Amount]


class _Found(NamedTuple):
    """The holders of a ClusterQueue that nobody may stop, as of a version of its holders."""

    version: int
    rule: NonPreemptibleRule
    keys: frozenset[str]


class NonPreemptibles:
    """Who may not be stopped in each ClusterQueue. Mutable: it keeps what it found.

    Args:
        cache: the quota trees.
        quota_usage: who holds quota.
        governance: whose policy counts where.
    """

    def __init__(self, cache: Cache, quota_usage: QuotaUsage, governance: Governance) -> None:
        self._cache = cache
        self._quota_usage = quota_usage
        self._governance = governance
        self._found: dict[str, _Found] = {}

    def forget(self) -> None:
        """Find out anew, because a quota or a policy changed."""
        self._found.clear()

    def find_hold_off(self, entry: Entry) -> HoldOff | None:
        """Return why nobody may stop a holder; None if somebody may."""
        if not entry.workload.non_preemptible:
            return None
        rules = self._governance.of_queue(entry.charged).rules
        if entry.key not in self._keys(entry.charged, rules.protection.non_preemptible):
            return None
        return HoldOff(
            None, "nonPreemptible", f'DisruptionPolicy "{rules.name}": it is non-preemptible'
        )

    def find_excess(self, workload: Workload, cluster_queue: str, usage: Usage) -> str | None:
        """Return in words what a Workload waits for that would get its quota now.

        None if it may start, be it because it does not ask or does not count as non-preemptible.
        """
        rules = self._governance.of_queue(cluster_queue).rules
        rule = rules.protection.non_preemptible
        if not counts(workload, rule):
            return None
        holders = self._quota_usage.holders.get(cluster_queue, {})
        keys = self._keys(cluster_queue, rule) - {workload.replaces}
        used = _sum_up(holders[key].usage for key in keys)
        limits = self._limits(cluster_queue, rule)
        for pair, amount in accelerators_of(usage).items():
            limit = limits.get(pair, 0)
            if used.get(pair, 0) + amount > limit:
                return _describe(rules, pair, used.get(pair, 0), amount, limit)
        return None

    def find_refusal(self, workload: Workload, cluster_queue: str) -> str:
        """Say why a Workload may be stopped although it asks not to be; "" if none does."""
        if not workload.non_preemptible:
            return ""
        rules = self._governance.of_queue(cluster_queue).rules
        rule = rules.protection.non_preemptible
        if counts(workload, rule):
            return ""
        if not rule.percent:
            why = "no DisruptionPolicy of its ClusterQueue allows it"
        elif not workload.run_limit:
            why = f"it has no {MAX_EXEC_TIME_SECONDS} label"
        else:
            why = (
                f"it may run for {format_seconds(workload.run_limit)}, and "
                f'DisruptionPolicy "{rules.name}" allows {format_seconds(rule.longest_run)}'
            )
        return f"it may be stopped for others, because {why}"

    def _keys(self, cluster_queue: str, rule: NonPreemptibleRule) -> frozenset[str]:
        version = self._quota_usage.holders_version.get(cluster_queue, 0)
        found = self._found.get(cluster_queue)
        if found is None or found.version != version or found.rule != rule:
            holders = self._quota_usage.holders.get(cluster_queue, {}).values()
            asking = [holder for holder in holders if counts(holder.workload, rule)]
            limits = self._limits(cluster_queue, rule) if asking else {}
            found = _Found(version, rule, find_non_preemptible(asking, limits))
            self._found[cluster_queue] = found
        return found.keys

    def _limits(self, cluster_queue: str, rule: NonPreemptibleRule) -> Usage:
        queue = self._cache.queues.get(cluster_queue)
        if queue is None:
            return {}
        node = queue.node
        return {
            pair: node.nominal[slot] * rule.percent // 100
            for pair, slot in node.slot_by_flavor_resource.items()
        }


def counts(workload: Workload, rule: NonPreemptibleRule) -> bool:
    """Whether a Workload asks to be non-preemptible, and says that it ends soon enough."""
    return workload.non_preemptible and rule.allows(workload.run_limit)


def find_non_preemptible(asking: Iterable[Entry], limits: Usage) -> frozenset[str]:
    """Return the keys of those that fit into the limits, who got quota first before others."""
    used: dict[FlavorResource, Amount] = {}
    found = set()
    for entry in sorted(asking, key=lambda each: (each.reserved_at, each.key)):
        wanted = accelerators_of(entry.usage)
        if all(used.get(pair, 0) + n <= limits.get(pair, 0) for pair, n in wanted.items()):
            found.add(entry.key)
            for pair, amount in wanted.items():
                used[pair] = used.get(pair, 0) + amount
    return frozenset(found)


def _sum_up(usages: Iterable[Usage]) -> Usage:
    total: dict[FlavorResource, Amount] = {}
    for usage in usages:
        for pair, amount in accelerators_of(usage).items():
            total[pair] = total.get(pair, 0) + amount
    return total


def _describe(
    rules: DisruptionRules, pair: FlavorResource, used: Amount, asked: Amount, limit: Amount
) -> str:
    flavor, resource = pair
    most, now, needed = (format_amount(resource, each) for each in (limit, used, asked))
    part = f"{rules.protection.non_preemptible.percent} % of its nominal quota"
    never = "" if asked <= limit else ", which is more than that, so it never starts"
    return (
        f"Workload is non-preemptible, and such ones may hold {most} {resource} of flavor {flavor} "
        f'in this ClusterQueue, {part} (DisruptionPolicy "{rules.name}"): '
        f"they hold {now}, and it needs {needed}{never}"
    )
