"""Assembles topology-aware scheduling around the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from multiqueue.api.config import Gate
from multiqueue.controllers.topology.failure_controller import NodeFailureController
from multiqueue.controllers.topology.feed import TopologyFeed
from multiqueue.controllers.topology.ungater import TopologyUngater
from multiqueue.controllers.topology.watch import TopologyWatch
from multiqueue.jobs.context import ManagerContext, Runnable
from multiqueue.jobs.machines.mirror import NodeMirror


@dataclass(frozen=True, slots=True)
class TopologyParts:
    """The components to run while this manager leads, and what scheduling waits for."""

    runnables: tuple[Runnable, ...] = ()
    until_fed: Callable[[], Awaitable[None]] | None = None


def build_topology(
    context: ManagerContext, engine: NodeMirror, *, on_change: Callable[[], None]
) -> TopologyParts:
    """Connect nodes and pods with the engine; no components if the gate is off.

    Args:
        context: The manager's context.
        engine: The engine to feed.
        on_change: Called after each change of the engine.
    """
    gates = context.config.gates
    if not gates.enabled(Gate.TOPOLOGY_AWARE_SCHEDULING):
        return TopologyParts()
    watch = TopologyWatch(context)
    feed = TopologyFeed(context, watch, engine, on_change=on_change)
    runnables: list[Runnable] = [watch, feed, TopologyUngater(context, watch)]
    if gates.enabled(Gate.TAS_FAILED_NODE_REPLACEMENT):
        runnables.append(NodeFailureController(context, watch))
    return TopologyParts(tuple(runnables), feed.until_fed)
