"""The story of one Workload, and the line of one queue: answers about what belongs together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.names import key_of, split_key
from multiqueue.api.serde import encode
from multiqueue.engine.engine import Engine
from multiqueue.forecast.manager_starts import NO_ESTIMATE
from multiqueue.plugins.recording import dump
from multiqueue.views.spans import Span, build_spans
from multiqueue.views.standing import write_time
from multiqueue.visibility import refusals
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction
from multiqueue.visibility.decisions import for_namespace
from multiqueue.visibility.explanation_status import (
    add_words,
    build_status,
    hide_names,
    names_others,
)
from multiqueue.visibility.fleet.history import History
from multiqueue.visibility.fleet.resources import VISIBILITY
from multiqueue.visibility.fleet.rights import FleetRights
from multiqueue.visibility.fleet.rows import FleetRow
from multiqueue.visibility.fleet.selection import write_continue
from multiqueue.visibility.fleet.standings import Standings
from multiqueue.visibility.fleet.starts import DecisionRecord
from multiqueue.visibility.positions import PositionReader, Positions
from multiqueue.visibility.remote_documents import DISPATCH, EXPLANATION, WORKLOADS
from multiqueue.visibility.remote_documents import GROUP as REMOTE

Json = dict[str, Any]

MAX_MESSAGE = 32 * 1024
"""Characters of a message in a story."""
STRANGER: Mapping[str, object] = dict.fromkeys(
    ("job", "created", "localQueue", "start", "code", "why")
)
"""What a reader does not learn about Workloads of others."""


@dataclass(frozen=True, slots=True)
class Line:
    """A page of a line.

    Attributes:
        status: The queue in numbers.
        items: The Workloads in order.
        rest: ``continue`` for the next page; empty on the last.
    """

    status: Json
    items: list[Json]
    rest: str = ""


class Stories:
    """Tells stories and lines.

    Args:
        standings: Where Workloads stand.
        engine: Knows the queues, and why Workloads wait.
        positions: Reads the queues' orders.
        history: The transitions.
        decisions: The last dispatch decisions.
        rights: Checks what a reader may see beside the answer itself.
        leading: Set while this manager leads.
    """

    def __init__(
        self,
        standings: Standings,
        engine: Engine,
        positions: PositionReader,
        *,
        history: History,
        decisions: DecisionRecord,
        rights: FleetRights,
        leading: asyncio.Event,
    ) -> None:
        self._standings = standings
        self._engine = engine
        self._positions = positions
        self._history = history
        self._decisions = decisions
        self._rights = rights
        self._leading = leading

    # ---------------------------------------------------------------- stories

    async def tell(self, user: AuthenticatedUser, key: str) -> Json:
        """Return the story of a Workload.

        Raises:
            StatusRefusal: 404, there is no such Workload.
        """
        namespace, name = split_key(key)
        rows = await self._standings.find_rows([key])
        workload = self._standings.workloads.get(key)
        if not rows or workload is None:
            raise refusals.workload_not_found(name)
        spans = build_spans(workload, self._history.find_transitions(key))
        explanation = await self._explain(user, namespace, name, rows[0])
        why = (explanation or {}).get("why") or rows[0].status["why"]
        return {
            "standing": {**rows[0].status, "why": why},
            "spans": [_show(span) for span in spans],
            "decision": await self._find_decision(user, namespace, name),
            "explanation": explanation,
            "conditions": [
                {**encode(condition), "message": condition.message[:MAX_MESSAGE]}
                for condition in workload.status.conditions
            ],
            "knownSince": write_time(self._history.since),
        }

    async def _find_decision(
        self, user: AuthenticatedUser, namespace: str, name: str
    ) -> Json | None:
        decision = self._decisions.find(key_of(namespace, name))
        if decision is None or not await self._may_read(user, namespace, name, DISPATCH):
            return None
        told: Json = dump(for_namespace(decision, namespace))
        return told

    async def _explain(
        self, user: AuthenticatedUser, namespace: str, name: str, row: FleetRow
    ) -> Json | None:
        key, queue = key_of(namespace, name), row.status["clusterQueue"] or ""
        if self._engine.workload_reason(key) is None:
            return None
        if not await self._may_read(user, namespace, name, EXPLANATION):
            return None
        order = await self._positions.of_cluster_queue(queue)
        status = build_status(self._engine, key, queue, order, leading=self._leading.is_set())
        if names_others(status, namespace) and not await self._may_list(user, queue):
            hide_names(status, namespace)
        add_words(status)
        return status

    async def _may_read(
        self, user: AuthenticatedUser, namespace: str, name: str, subresource: str
    ) -> bool:
        action = ApiAction(
            verb="get",
            path="",
            group=REMOTE,
            namespace=namespace,
            resource=WORKLOADS,
            name=name,
            subresource=subresource,
        )
        return await self._rights.may(user, action)

    async def _may_list(self, user: AuthenticatedUser, cluster_queue: str) -> bool:
        action = ApiAction(
            verb="get",
            path="",
            group=VISIBILITY,
            resource="clusterqueues",
            name=cluster_queue,
            subresource="pendingworkloads",
        )
        return await self._rights.may(user, action)

    # ---------------------------------------------------------------- lines

    async def line(
        self,
        user: AuthenticatedUser,
        namespace: str,
        name: str,
        *,
        limit: int,
        first: int = 0,
    ) -> Line:
        """Return who waits in a LocalQueue, or (without a namespace) in a ClusterQueue.

        Raises:
            StatusRefusal: 404, there is no such queue.
        """
        local_queue = key_of(namespace, name) if namespace else ""
        target = self._engine.local_queue_target(local_queue) if namespace else name
        order = await self._positions.of_cluster_queue(target) if target is not None else None
        if target is None or (order is None and not namespace):
            raise refusals.queue_not_found("localqueue" if namespace else "clusterqueue", name)
        order = order or Positions()
        places = order.by_local_queue.get(local_queue, ()) if namespace else range(len(order.keys))
        page = places[first : first + limit]
        items = await self._build_items(user, target, [order.keys[place] for place in page], first)
        rest = write_continue((first + limit, "")) if first + limit < len(places) else ""
        return Line(self._describe(target, local_queue), items, rest)

    def _describe(self, cluster_queue: str, local_queue: str) -> Json:
        queue = self._engine.parts.cache.queues.get(cluster_queue)
        state = (
            self._engine.local_queue_state(local_queue)
            if local_queue
            else self._engine.cluster_queue_state(cluster_queue)
        )
        return {
            "clusterQueue": cluster_queue,
            "localQueue": split_key(local_queue)[1] if local_queue else None,
            "strategy": str(queue.spec.strategy.value) if queue is not None else None,
            "active": state.active if state is not None else False,
            "pending": state.pending if state is not None else 0,
            "inadmissible": state.inadmissible if state is not None else 0,
        }

    async def _build_items(
        self, user: AuthenticatedUser, cluster_queue: str, keys: list[str], first: int
    ) -> list[Json]:
        visible = await self._rights.find_visible(user, {split_key(key)[0] for key in keys})
        pending = self._engine.parts.pending.get(cluster_queue)
        rows = {row.key: row for row in await self._standings.find_rows(keys)}
        items = []
        for position, key in enumerate(keys, start=first + 1):
            row = rows.get(key)
            if row is None:
                continue
            entry = pending.members.get(key) if pending is not None else None
            is_seen = split_key(key)[0] in visible
            items.append(
                {
                    "workload": key if is_seen else None,
                    "position": position,
                    "gpus": row.status["gpus"],
                    "priority": row.status["priority"],
                    "parked": entry is not None
                    and entry.is_parked
                    and row.status["code"] in NO_ESTIMATE,
                    **({name: row.status[name] for name in STRANGER} if is_seen else STRANGER),
                }
            )
        return items


def _show(span: Span) -> Json:
    step = span.transition
    return {
        "stage": step.phase,
        "worker": step.worker,
        "from": write_time(step.at),
        "to": write_time(span.to),
        "code": step.code,
        "why": step.why,
    }
