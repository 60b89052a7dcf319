"""Answers why a Workload waits, with the numbers on which the manager decides.

``/apis/remote.multiqueue.dev/v1alpha1/namespaces/NS/workloads/NAME/explanation`` (get) gives the
reason, the position, each flavor's quota against the request, preemption and fair sharing, all from
the engine. A standby knows everything except the reason, which only cycles find; ``leading`` says
whether the leader answered.

A user who may read the explanations of one namespace sees no names from other namespaces. The names
of LocalQueues there are shown only to users who may list the whole ClusterQueue.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import orjson
from aiohttp import web

from multiqueue.api.names import key_of, split_key
from multiqueue.engine.engine import Engine
from multiqueue.engine.pending_reasons import Explanation
from multiqueue.engine.state import ClusterQueueState
from multiqueue.lib.amount import Amount, add, subtract
from multiqueue.model.resources import format_amount
from multiqueue.serving.request import HttpRequest
from multiqueue.visibility import documents, refusals
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, RightsReviewer
from multiqueue.visibility.positions import PositionReader, Positions
from multiqueue.visibility.remote import is_exact
from multiqueue.visibility.remote_documents import (
    EXPLANATION,
    EXPLANATION_KIND,
    GROUP,
    VERSION,
    WORKLOADS,
)
from multiqueue.visibility.summary import VERSIONS, FindWorkload

MAX_LOCAL_QUEUES = 100
"""The limit of LocalQueues whose past usage is given, those with the least usage first."""
JSON = "application/json"
Json = dict[str, Any]


class ExplanationAnswers:
    """Answers requests for explanations.

    Args:
        engine: The engine, which has the numbers.
        positions: Reads the queues' orders.
        find: Returns a Workload by its key.
        leading: Set while this manager leads.
        authorizer: Checks users' rights.
    """

    def __init__(
        self,
        engine: Engine,
        positions: PositionReader,
        find: FindWorkload,
        leading: asyncio.Event,
        authorizer: RightsReviewer,
    ) -> None:
        self._engine = engine
        self._positions = positions
        self._find = find
        self._leading = leading
        self._authorizer = authorizer

    @staticmethod
    def is_asked(action: ApiAction) -> bool:
        """Whether a request is about an explanation."""
        about = action.resource == WORKLOADS and action.subresource == EXPLANATION
        return action.group == GROUP and about

    async def answer(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.Response:
        """Answer one request of a user who may ask about this Workload.

        Raises:
            StatusRefusal: there is no such Workload.
        """
        if http.method not in {"GET", "HEAD"}:
            raise refusals.method_not_allowed()
        if not is_exact(http.path, action):
            raise refusals.no_such_path()
        key = key_of(action.namespace, action.name)
        workload = self._find(key)
        if workload is None:
            raise refusals.workload_not_found(action.name)
        local_queue = key_of(action.namespace, workload.spec.queue_name)
        name = self._engine.local_queue_target(local_queue) or ""
        positions = await self._positions.of_cluster_queue(name)
        shows_names = bool(name) and await self._may_list(user, name, action)
        status = build_status(self._engine, key, name, positions, leading=self._leading.is_set())
        if not shows_names:
            _hide_names(status, action.namespace)
        body = {
            "kind": EXPLANATION_KIND,
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {"name": action.name, "namespace": action.namespace},
            "status": status,
        }
        return web.Response(body=orjson.dumps(body), content_type=JSON)

    async def _may_list(
        self, user: AuthenticatedUser, cluster_queue: str, action: ApiAction
    ) -> bool:
        """Whether a user may see all pending Workloads of a ClusterQueue."""
        if self._engine.usage is None or not self._engine.usage.counts_in(cluster_queue):
            return False  # the answer would show nothing
        whole = ApiAction(
            verb="get",
            path=action.path,
            group=refusals.GROUP,
            version=VERSIONS[0],
            resource="clusterqueues",
            name=cluster_queue,
            subresource=documents.PENDING,
        )
        try:
            await self._authorizer.authorize(user, whole)
        except refusals.StatusRefusal:
            return False
        return True


def build_status(
    engine: Engine, key: str, cluster_queue: str, positions: Positions | None, *, leading: bool
) -> Json:
    """Return the explanation of a Workload.

    Reads one state of the engine, so it must not await.

    Args:
        engine: The engine, which has the numbers.
        key: The Workload's key.
        cluster_queue: The ClusterQueue of its LocalQueue; empty if there is none.
        positions: The order of that ClusterQueue.
        leading: Whether this is the leader's engine, which knows reasons.
    """
    explanation = engine.workload_reason(key)
    status: Json = {
        "leading": leading,
        "clusterQueue": cluster_queue,
        "pending": explanation is not None,
    }
    if explanation is None:
        return status
    if leading:
        status |= _tell(explanation)
    state = engine.cluster_queue_state(cluster_queue)
    if state is None or positions is None:
        return status
    status["pendingInClusterQueue"] = len(positions.keys)
    if key in positions.keys:
        place = positions.keys.index(key)
        status["positionInClusterQueue"] = place
        status["positionInLocalQueue"] = positions.in_local_queue[place]
    status["flavors"] = _flavors(engine, key, state)
    if state.weighted_share is not None:
        status["fairSharing"] = {"weightedShare": state.weighted_share.reported}
        if leading and explanation.share_loss is not None:
            name, share, other, other_share = explanation.share_loss
            loss = {"name": name, "share": share, "other": other, "otherShare": other_share}
            status["fairSharing"]["loss"] = loss
    if engine.usage is not None and engine.usage.counts_in(cluster_queue):
        status["pastUsage"] = _past_usage(engine, positions)
    return status


def _tell(explanation: Explanation) -> Json:
    return {
        "reason": explanation.reason,
        "message": explanation.message,
        "preemption": {"victims": explanation.victims, "gated": explanation.is_gated},
        "podSets": [
            {
                "name": pod_set.name,
                "pods": pod_set.pods,
                "flavors": [
                    {
                        "name": attempt.flavor,
                        "reason": attempt.reason,
                        "messages": [str(refusal) for refusal in attempt.refusals],
                    }
                    for group in pod_set.groups
                    for attempt in group
                ],
            }
            for pod_set in explanation.pod_sets
        ],
    }


def _flavors(engine: Engine, key: str, state: ClusterQueueState) -> list[Json]:
    """Return the request and the quota of each flavor, without resources not requested."""
    rows = []
    for flavor, requests in engine.requests_by_flavor(key).items():
        for resource, asked in requests.items():
            if asked <= 0:
                continue
            free, borrowable = state.free[flavor][resource], state.borrowable[flavor][resource]
            amounts = {
                "requested": asked,
                "nominal": state.nominal[flavor][resource],
                "used": state.reservation[flavor][resource].total,
                "free": free,
                "borrowable": borrowable,
            }
            told = {name: format_amount(resource, value) for name, value in amounts.items()}
            verdict = _verdict(resource, asked, free, borrowable)
            rows.append({"name": flavor, "resource": resource, **told, "verdict": verdict})
    return rows


def _verdict(resource: str, asked: Amount, free: Amount, borrowable: Amount) -> str:
    if asked <= free:
        return "fits"
    missing = subtract(asked, add(free, borrowable))
    if missing <= 0:
        return "fits by borrowing"
    return f"{format_amount(resource, missing)} more needed"


def _past_usage(engine: Engine, positions: Positions) -> list[Json]:
    """Return the LocalQueues with pending Workloads, those with the least usage first.

    ``usage`` is None if the weight is zero, because the weighted usage is then infinite.
    """
    assert engine.usage is not None, "the caller has looked"
    usage = {key: engine.usage.usage_of(key) for key in positions.by_local_queue}
    order = sorted(usage, key=lambda key: (usage[key], key))[:MAX_LOCAL_QUEUES]
    return [
        {"localQueue": key, "usage": None if math.isinf(usage[key]) else usage[key]}
        for key in order
    ]


def _hide_names(status: Json, namespace: str) -> None:
    """Remove the names of LocalQueues in other namespaces, which the user may not see."""
    for row in status.get("pastUsage", ()):
        if split_key(row["localQueue"])[0] != namespace:
            row["localQueue"] = ""
