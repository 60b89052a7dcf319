"""Nodes and pods of a worker on their way to what is foreseen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from multiqueue.engine.engine import Engine
from multiqueue.forecast.node_informers import NodeInformers
from multiqueue.forecast.node_model import NodeModel
from multiqueue.jobs.machines.nodes import WatchedNode
from multiqueue.observability.metrics import ManagerMetrics
from tests.unit.capacity.test_worker_state import FakeInformer
from tests.unit.forecast.test_node_model import make_node


def test_a_node_that_changed_is_room_and_one_that_only_reports_is_none() -> None:
    nobody: Any = None  # nothing is sent
    flavors: Any = FakeInformer()
    told: list[str] = []
    node_informers = NodeInformers(nobody, ManagerMetrics(), "w")
    node_informers.follow(flavors, NodeModel(Engine()), on_room=lambda: told.append("room"))
    node = WatchedNode(node=make_node(1, "r1"), version=1, uid="u")
    node_informers.nodes.observe(node)
    node_informers.nodes.observe(replace(node, version=2))
    assert told == ["room"]
    node_informers.nodes.observe(replace(node, version=3, node=make_node(1, "r1", ready=False)))
    assert told == ["room", "room"]
