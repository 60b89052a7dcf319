"""Whether a node has failed a Workload whose pods were placed on it (E-148, E-149). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from multiqueue.api.conditions import Reason
from multiqueue.api.config.gates import Gate, Gates
from multiqueue.api.v1beta2 import UnhealthyNode, WorkloadStatus
from multiqueue.api.v1beta2.meta import Taint, Toleration
from multiqueue.api.workload_state import evict, has_quota, is_admitted, is_evicted, is_finished
from multiqueue.engine.eligibility import find_untolerated
from multiqueue.jobs.machines.nodes import WatchedNode
from multiqueue.jobs.machines.pods import Pod

FAILURE_DELAY = timedelta(seconds=30)
"""How long a node may be not ready before that alone is a failure; restarts take less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRules:
    """The gates of E-148."""

    on_pod_termination: bool = True
    after_fixed_time: bool = False
    on_taints: bool = True

    @classmethod
    def from_gates(cls, gates: Gates) -> FailureRules:
        """Read the gates that the rules need."""
        return cls(
            on_pod_termination=gates.enabled(Gate.TAS_REPLACE_NODE_ON_POD_TERMINATION),
            after_fixed_time=gates.enabled(Gate.TAS_REPLACE_NODE_DUE_TO_NOT_READY_OVER_FIXED_TIME),
            on_taints=gates.enabled(Gate.TAS_REPLACE_NODE_ON_NODE_TAINTS),
        )


class NodeHealth(Enum):
    """The state of a node for one Workload; while it is UNDECIDED nothing is changed."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNDECIDED = "Undecided"


class _Tolerance(Enum):
    ALWAYS = 0
    FOR_A_WHILE = 1
    NEVER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A Workload on a node.

    Attributes:
        assigned: Whether its assignment still names the node; pods may leave later.
        tolerations: The tolerations of each of its pod sets there, with those from admission.
        pods: Its live pods that are bound to the node or have it as their node selector.
    """

    assigned: bool
    tolerations: Sequence[tuple[Toleration, ...]] = ()
    pods: Sequence[Pod] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailureVerdict:
    """The result for one node and Workload.

    Attributes:
        health: The state of the node for this Workload.
        doomed: Pods that wait for a node on which they can no longer run.
        ask_again: When time alone may change the result.
    """

    health: NodeHealth
    doomed: tuple[Pod, ...] = ()
    ask_again: timedelta | None = None


def judge(
    node: WatchedNode | None, placed: Placed, rules: FailureRules, now: datetime
) -> NodeFailureVerdict:
    """Return whether the node has failed the Workload."""
    if not placed.assigned:
        return NodeFailureVerdict(health=NodeHealth.HEALTHY, doomed=_stuck(placed))
    if node is None or not node.reports:
        return NodeFailureVerdict(health=NodeHealth.UNHEALTHY)
    if node.unready_since is not None:
        return _judge_unready(node.unready_since, placed, rules, now)
    if not rules.on_taints:
        return NodeFailureVerdict(health=NodeHealth.HEALTHY)
    match _tolerance(node.node.taints, placed.tolerations):
        case _Tolerance.ALWAYS:
            return NodeFailureVerdict(health=NodeHealth.HEALTHY)
        case _Tolerance.NEVER if not rules.on_pod_termination:
            return NodeFailureVerdict(health=NodeHealth.UNHEALTHY)
    return _once_pods_ended(placed)


def _judge_unready(
    since: datetime, placed: Placed, rules: FailureRules, now: datetime
) -> NodeFailureVerdict:
    left = since + FAILURE_DELAY - now
    by_time = rules.after_fixed_time or not rules.on_pod_termination
    if by_time and left <= timedelta():
        return NodeFailureVerdict(health=NodeHealth.UNHEALTHY)
    if not rules.on_pod_termination:
        return NodeFailureVerdict(health=NodeHealth.UNDECIDED, ask_again=left)
    verdict = _once_pods_ended(placed)
    return replace(verdict, ask_again=left) if by_time else verdict


def _once_pods_ended(placed: Placed) -> NodeFailureVerdict:
    """Declare the node failed once nothing of the Workload runs there any more."""
    runs = any(pod.node and not (pod.terminating or pod.ended) for pod in placed.pods)
    health = NodeHealth.HEALTHY if runs else NodeHealth.UNHEALTHY
    return NodeFailureVerdict(health=health, doomed=_stuck(placed))


def _stuck(placed: Placed) -> tuple[Pod, ...]:
    return tuple(pod for pod in placed.pods if pod.is_stuck)


def _tolerance(
    taints: Iterable[Taint], tolerations: Sequence[tuple[Toleration, ...]]
) -> _Tolerance:
    """Return how long the pod sets tolerate the taints: the shortest time of all."""
    worst = _Tolerance.ALWAYS
    for taint in taints:
        for accepted in tolerations:
            if find_untolerated((taint,), accepted) is not None:
                return _Tolerance.NEVER
            lasting = tuple(t for t in accepted if t.toleration_seconds is None)
            if find_untolerated((taint,), lasting) is not None:
                worst = _Tolerance.FOR_A_WHILE
    return worst


def judged_status(
    status: WorkloadStatus, hostname: str, health: NodeHealth, *, now: datetime, generation: int
) -> WorkloadStatus:
    """Return the status of a Workload after a verdict (E-149): a second failed node evicts it."""
    known = [node.name for node in status.unhealthy_nodes]
    if health is NodeHealth.HEALTHY and hostname in known:
        rest = tuple(node for node in status.unhealthy_nodes if node.name != hostname)
        return msgspec.structs.replace(status, unhealthy_nodes=rest)
    ended = is_finished(status) or is_evicted(status) or not is_admitted(status)
    if health is not NodeHealth.UNHEALTHY or hostname in known or ended or not has_quota(status):
        return status
    if known:
        failed = ", ".join([*known, hostname])
        return evict(
            status,
            Reason.NODE_FAILURES,
            "Workload eviction triggered due to multiple TAS assigned node failures, "
            f"including: {failed}",
            now=now,
            generation=generation,
        )
    return msgspec.structs.replace(status, unhealthy_nodes=(UnhealthyNode(name=hostname),))
