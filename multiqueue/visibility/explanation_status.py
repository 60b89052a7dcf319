"""The document that explains why a Workload waits, built from one state of the engine.

`names_others` and `hide_names` keep what a user of one namespace may not know out of it.
"""

from __future__ import annotations

import math
from typing import Any

from multiqueue.api.conditions import Reason
from multiqueue.api.names import split_key
from multiqueue.engine import obstacles
from multiqueue.engine.engine import Engine
from multiqueue.engine.pending_reasons import Explanation, Refusal, Shortfall
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.state import ClusterQueueState
from multiqueue.lib.amount import add, subtract
from multiqueue.model.cluster_queue import QueueingStrategy
from multiqueue.model.resources import format_amount, is_accelerator
from multiqueue.visibility.pending_words import tell_waiting
from multiqueue.visibility.positions import Positions

MAX_LOCAL_QUEUES = 100
"""The limit of LocalQueues and ClusterQueues that are listed, those with the least usage first."""
Json = dict[str, Any]


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
    place = positions.places.get(key)
    if place is not None:
        status["positionInClusterQueue"] = place
        status["positionInLocalQueue"] = positions.in_local_queue[place]
    status["flavors"] = _flavors(engine, key, state)
    if state.weighted_share is not None:
        status["fairSharing"] = _shares(engine, state, explanation if leading else None)
    if engine.usage is not None and engine.usage.counts_in(cluster_queue):
        status["pastUsage"] = _past_usage(engine, cluster_queue)
    if leading:
        _add_obstacles(engine, key, status, state, explanation)
    return status


def tell_why(engine: Engine, key: str, state: ClusterQueueState) -> str:
    """Return what a Workload waits for, as the explanation has it, without names elsewhere.

    Empty if it does not wait, or waits in another ClusterQueue by now.

    Args:
        engine: The leader's engine.
        key: The Workload's key.
        state: Its ClusterQueue, now or a moment ago.
    """
    explanation = engine.workload_reason(key)
    if explanation is None or explanation.cluster_queue != state.name:
        return ""
    status: Json = {"clusterQueue": state.name, **_tell_own(engine, key, state, explanation)}
    ahead = obstacles.find_ahead(engine.parts, key)
    if ahead is not None:
        status["blockedBy"] = _blocker(engine, ahead, state)
    hide_names(status, split_key(key)[0])
    add_words(status)
    return str(status.get("why", ""))


def _tell_own(engine: Engine, key: str, state: ClusterQueueState, explanation: Explanation) -> Json:
    return {
        "flavors": _flavors(engine, key, state),
        "takenBy": list(explanation.taken_by),
        **_tell(explanation),
    }


def _shares(engine: Engine, state: ClusterQueueState, explanation: Explanation | None) -> Json:
    assert state.weighted_share is not None, "the caller has looked"
    shares = obstacles.list_shares(engine.parts, state.name)[:MAX_LOCAL_QUEUES]
    told: Json = {
        "weightedShare": state.weighted_share.reported,
        "clusterQueues": [{"name": each.cluster_queue, "share": each.share} for each in shares],
    }
    if explanation is not None and explanation.share_loss is not None:
        name, share, other, other_share = explanation.share_loss
        loss = {"name": name, "share": share, "other": other, "otherShare": other_share}
        told["loss"] = loss
    return told


def _add_obstacles(
    engine: Engine, key: str, status: Json, state: ClusterQueueState, explanation: Explanation
) -> None:
    """Add who is ahead, who took the room, and why nobody is preempted."""
    status["takenBy"] = list(explanation.taken_by)
    ahead = obstacles.find_ahead(engine.parts, key)
    if ahead is not None:
        status["blockedBy"] = _blocker(engine, ahead, state)
        return
    needed = frozenset(
        (row["name"], row["resource"]) for row in status["flavors"] if row["missing"] is not None
    )
    waits = explanation.reason is Reason.WAITING_FOR_QUOTA and not explanation.victims
    if waits and needed and not explanation.is_gated:
        told = (
            explanation.held_back
            or explanation.share_loss
            or obstacles.explain_no_preemption(engine.parts, key, needed)
        )
        status["preemption"]["refusal"] = str(told)


def _blocker(engine: Engine, ahead: Entry, state: ClusterQueueState) -> Json:
    """Return the head of a queue, and what that waits for."""
    explanation = engine.workload_reason(ahead.key)
    assert explanation is not None, "a head waits"
    own = {"clusterQueue": state.name, **_tell_own(engine, ahead.key, state, explanation)}
    pod_sets = ahead.workload.pod_sets
    return {
        "workload": ahead.key,
        "strict": engine.parts.pending[state.name].strategy is QueueingStrategy.STRICT_FIFO,
        "priority": ahead.workload.priority,
        "gpus": sum(
            amount * each.count
            for each in pod_sets
            for resource, amount in each.requests.items()
            if is_accelerator(resource)
        ),
        "reason": explanation.reason,
        "own": own,
    }


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
                        "words": [_words(refusal) for refusal in attempt.refusals],
                        "missing": [
                            refusal.resource
                            for refusal in attempt.refusals
                            if isinstance(refusal, Shortfall)
                        ],
                    }
                    for group in pod_set.groups
                    for attempt in group
                ],
            }
            for pod_set in explanation.pod_sets
        ],
    }


def _words(refusal: Refusal) -> str:
    return refusal.words if isinstance(refusal, Shortfall) else str(refusal)


def _flavors(engine: Engine, key: str, state: ClusterQueueState) -> list[Json]:
    """Return the request and the quota of each flavor, without resources not requested.

    A flavor or resource that ``state`` does not have yet is left out.
    """
    rows = []
    for flavor, requests in engine.requests_by_flavor(key).items():
        quotas = state.free.get(flavor, {})
        for resource, asked in requests.items():
            if asked <= 0 or resource not in quotas:
                continue
            free, borrowable = quotas[resource], state.borrowable[flavor][resource]
            amounts = {
                "requested": asked,
                "nominal": state.nominal[flavor][resource],
                "used": state.reservation[flavor][resource].total,
                "free": free,
                "borrowable": borrowable,
            }
            told: Json = {n: format_amount(resource, value) for n, value in amounts.items()}
            missing = max(0, subtract(asked, add(free, borrowable)))
            lacks = format_amount(resource, missing) if missing else None
            verdict = f"{lacks} more needed" if missing else "fits by borrowing"
            told |= {"verdict": "fits" if asked <= free else verdict, "missing": lacks}
            rows.append({"name": flavor, "resource": resource, **told})
    return rows


def _past_usage(engine: Engine, cluster_queue: str) -> list[Json]:
    """Return the LocalQueues of a ClusterQueue, those with the least usage first.

    ``usage`` is None if the weight is zero, because the weighted usage is then infinite.
    """
    assert engine.usage is not None, "the caller has looked"
    keys = obstacles.list_local_queues(engine.parts, cluster_queue)
    usage = {key: engine.usage.usage_of(key) for key in keys}
    order = sorted(usage, key=lambda key: (usage[key], key))[:MAX_LOCAL_QUEUES]
    return [
        {"localQueue": key, "usage": None if math.isinf(usage[key]) else usage[key]}
        for key in order
    ]


def names_others(status: Json, namespace: str) -> bool:
    """Whether an explanation names what a user of one namespace may not know."""
    named = [row["localQueue"] for row in status.get("pastUsage", ())]
    named += status.get("takenBy", ())
    if "blockedBy" in status:
        named += [status["blockedBy"]["workload"], *status["blockedBy"]["own"]["takenBy"]]
    shares = status.get("fairSharing", {}).get("clusterQueues", ())
    return len(shares) > 1 or any(split_key(key)[0] != namespace for key in named)


def hide_names(status: Json, namespace: str) -> None:
    """Remove the names of queues and Workloads elsewhere, which the user may not see."""

    def shown(key: str) -> str:
        return key if split_key(key)[0] == namespace else ""

    for row in status.get("pastUsage", ()):
        row["localQueue"] = shown(row["localQueue"])
    for told in (status, status.get("blockedBy", {}).get("own", {})):
        if "takenBy" in told:
            told["takenBy"] = [shown(key) for key in told["takenBy"]]
    if "blockedBy" in status:
        status["blockedBy"]["workload"] = shown(status["blockedBy"]["workload"])
    for row in status.get("fairSharing", {}).get("clusterQueues", ()):
        row["name"] = row["name"] if row["name"] == status["clusterQueue"] else ""


def add_words(status: Json) -> None:
    """Add what the Workload waits for in one text, after names were hidden."""
    if "blockedBy" in status:
        status["blockedBy"]["why"] = tell_waiting(status["blockedBy"].pop("own"))
    if told := tell_waiting(status):
        status["why"] = told
