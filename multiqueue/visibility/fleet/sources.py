"""The rows of quotas, workers, totals, shares, changes and calibrations.

Nothing here runs unless somebody reads. Each function yields row by row, so other tasks run in
between; a row shows one moment.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from multiqueue.engine import obstacles
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.informers import BY_CLUSTER_QUEUE
from multiqueue.model.resources import is_accelerator
from multiqueue.views.quota_tree import (
    CohortFlows,
    build_cohort_row,
    build_queue_row,
    cohort_key,
    find_flows,
    queue_key,
    sum_accelerators,
    sum_lent,
)
from multiqueue.views.standing import write_time
from multiqueue.views.workers import WorkerFacts, build_worker_row
from multiqueue.visibility.explanations import QuotaStarts
from multiqueue.visibility.fleet.census import Census
from multiqueue.visibility.fleet.history import History
from multiqueue.visibility.fleet.standings import RowStarts
from multiqueue.visibility.fleet.starts import find_next_start
from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]
Built = Iterator[tuple[str, Json, Json]]
"""Key, metadata and fields of each row."""

SUMMED = ("pending", "pendingGpus", "inadmissible", "reserving", "admitted")
FLEET = "fleet"
"""The name of the one row of `totals`."""


class FleetSources:
    """Builds the rows.

    Args:
        context: The manager's context.
        engine: Knows quotas and queues.
        fleet: The workers.
        census: Counts Workloads.
        history: Keeps minutes and changed specs.
        starts: Estimates starts on workers.
        queued: Estimates when Workloads get quota.
        list_queued: Returns the last such estimates.
    """

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        fleet: Fleet,
        *,
        census: Census,
        history: History,
        starts: RowStarts,
        queued: QuotaStarts,
        list_queued: Callable[[], Iterable[Mapping[str, Any]]],
    ) -> None:
        self._context = context
        self._engine = engine
        self._fleet = fleet
        self._census = census
        self._history = history
        self._starts = starts
        self._queued = queued
        self._list_queued = list_queued

    # ---------------------------------------------------------------- quotas

    def quotas(self) -> Built:
        """Yield a row for each ClusterQueue and Cohort, tree by tree."""
        trees = self._engine.parts.cache.trees
        for key in sorted(trees):
            if key in trees:
                yield from self._tree(trees[key])

    def _tree(self, tree: Tree) -> Built:
        lent: dict[str, dict[FlavorResource, int]] = {}
        flows: dict[str, CohortFlows] = {}
        for name, node in tree.cohorts.items():
            flows[name] = find_flows(tree, node)
            lent |= sum_lent(flows[name])
        sums: dict[str, Counter[str]] = defaultdict(Counter)
        for name in sorted(tree.queues):
            key, state = queue_key(name), self._engine.cluster_queue_state(name)
            if state is None:
                continue
            node = tree.queues[name].node
            gpus = self._count(name, self._census.waiting_gpus)
            row = build_queue_row(state, node, pending_gpus=gpus, lent=lent.get(key, {}))
            above = node.parent
            while above is not None:
                sums[above.name].update({field: row[field] for field in SUMMED})
                above = above.parent
            yield key, {"name": key}, row
        for name, node in tree.cohorts.items():
            key, found = cohort_key(name), self._engine.cohort_state(name)
            share = found.weighted_share if found is not None else None
            yield (
                key,
                {"name": key},
                build_cohort_row(
                    node,
                    {field: sums[name][field] for field in SUMMED},
                    flows=flows[name],
                    lent=lent.get(key, {}),
                    share=share.reported if share is not None else None,
                ),
            )

    def _count(self, cluster_queue: str, counts: Counter[str]) -> int:
        """Return a sum over the LocalQueues of a ClusterQueue."""
        queues = self._context.informers.local_queues.store
        found = queues.by_index(BY_CLUSTER_QUEUE, cluster_queue)
        return sum(counts[queue.metadata.key] for queue in found)

    # ---------------------------------------------------------------- workers and totals

    def workers(self) -> Built:
        """Yield a row for each MultiKueueCluster, by name."""
        store = self._context.informers.multikueue_clusters.store
        for name in sorted(store.keys()):
            cluster = store.get(name)
            if cluster is not None:
                metadata = {"name": name, "creationTimestamp": cluster.metadata.creation_timestamp}
                yield name, metadata, build_worker_row(cluster, self._find_facts(name))

    def _find_facts(self, name: str) -> WorkerFacts:
        connection = self._fleet.find(name)
        session = connection.session if connection is not None else None
        informer = session.informers.cluster_queues if session is not None else None
        is_known = informer is not None and informer.synced.is_set()
        return WorkerFacts(
            health=round(connection.health.score, 3) if connection is not None else None,
            trouble=connection.refusal if connection is not None else "",
            queues=informer.store.list() if informer is not None and is_known else None,
            running=self._census.running[name],
            waiting=self._census.offered[name],
        )

    def totals(self) -> Built:
        """Yield the one row with the sums of everything; it has no names of queues or jobs."""
        sums: dict[FlavorResource, list[int]] = defaultdict(lambda: [0, 0, 0])
        for tree in list(self._engine.parts.cache.trees.values()):
            for pair, figures in sum_accelerators(tree).items():
                sums[pair] = [a + b for a, b in zip(sums[pair], figures, strict=True)]
        gpus, used, borrowed = (sum(each[place] for each in sums.values()) for place in range(3))
        row = {
            "gpus": gpus,
            "used": used,
            "borrowed": borrowed,
            "free": max(0, gpus - used),
            "holding": self._census.holding.total(),
            "waiting": self._census.waiting.total(),
            "waitingGpus": self._census.waiting_gpus.total(),
            "oldest": write_time(self._census.find_oldest()),
            "nextStart": self._find_next_start(),
            "flavors": [
                {
                    "flavor": flavor,
                    "resource": resource,
                    "total": total,
                    "used": taken,
                    "free": max(0, total - taken),
                }
                for (flavor, resource), (total, taken, _) in sorted(sums.items())
            ],
        }
        yield FLEET, {"name": FLEET}, row

    def _find_next_start(self) -> str | None:
        offered = map(self._starts.find_start, self._census.list_offered())
        known = (*offered, *self._list_queued())
        return find_next_start(known, self._context.clock.now())

    # ---------------------------------------------------------------- shares and changes

    def shares(self) -> Built:
        """Yield a row for each ClusterQueue, by name."""
        ranks: dict[str, int] = {}
        for name in sorted(self._engine.parts.cache.queues):
            state = self._engine.cluster_queue_state(name)
            queue = self._engine.parts.cache.queues.get(name)
            if state is None or queue is None:
                continue
            if state.weighted_share is not None and name not in ranks:
                order = obstacles.list_shares(self._engine.parts, name)
                ranks |= {each.cluster_queue: rank for rank, each in enumerate(order, start=1)}
            share = state.weighted_share
            row = {
                "cohort": queue.spec.cohort or None,
                "weight": queue.node.weight,
                "share": share.reported if share is not None else None,
                "rank": ranks.get(name),
                "pastUsage": self._past_usage(name),
                "waiting": self._count(name, self._census.waiting),
                "starvedSeconds": self._find_starved(name),
                "minutes": self._history.list_minutes(queue_key(name), self._context.clock.now()),
            }
            yield name, {"name": name}, row

    def _past_usage(self, cluster_queue: str) -> list[Json] | None:
        usage = self._engine.usage
        if usage is None or not usage.counts_in(cluster_queue):
            return None
        queues = self._context.informers.local_queues.store
        keys = [q.metadata.key for q in queues.by_index(BY_CLUSTER_QUEUE, cluster_queue)]
        found = ((key, usage.usage_of(key)) for key in sorted(keys))
        return [
            {"localQueue": key, "usage": None if math.isinf(value) else value}
            for key, value in found
        ]

    def _find_starved(self, cluster_queue: str) -> int:
        """Return for how long a queue has waited while it used less than its nominal quota."""
        node = self._engine.parts.cache.queues[cluster_queue].node
        nominal = sum(
            node.nominal[slot]
            for (_, resource), slot in node.slot_by_flavor_resource.items()
            if is_accelerator(resource)
        )
        now = self._context.clock.now()
        return self._history.count_starved(queue_key(cluster_queue), nominal, now) * 60

    def changes(self) -> Built:
        """Yield a row for each changed spec, the newest first."""
        for change in reversed(self._history.changes):
            fields = [{"path": path, "from": old, "to": new} for path, old, new in change.fields]
            row = {
                "at": write_time(change.at),
                "kind": change.kind,
                "object": change.name,
                "action": change.action,
                "fields": fields,
                "by": change.by or None,
            }
            yield str(change.number), {"name": str(change.number)}, row

    def calibrations(self) -> Built:
        """Yield how earlier estimates of starts held, by stage and horizon."""
        for row in self._queued.list_calibrations():
            key = f"{row['stage']}-{row['horizon']}"
            yield key, {"name": key}, dict(row)

    # ---------------------------------------------------------------- history

    def minutes(self) -> Iterator[tuple[str, dict[str, int | None]]]:
        """Yield the figures of each queue and worker for the current minute."""
        for key, _, row in self.quotas():
            if row["kind"] == "ClusterQueue":
                gpus = [each for each in row["quotas"] if is_accelerator(each["resource"])]
                sums = {name: sum(each[name] for each in gpus) for name in _SUMS}
                yield (
                    key,
                    {
                        "waiting": row["pending"],
                        "holding": row["reserving"],
                        "gpus": sums["used"],
                        "borrowed": sums["borrowed"],
                        "lent": sums["lent"],
                        "share": row["share"],
                    },
                )
        for name, _, row in self.workers():
            figures = {"waiting": row["waiting"], "holding": row["running"], "gpus": row["used"]}
            yield f"worker:{name}", figures


_SUMS = ("used", "borrowed", "lent")
