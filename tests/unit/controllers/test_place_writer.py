"""What is written of new places, and what becomes of writes that fail."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.workload import UnhealthyNode
from multiqueue.api.workload_state import complete_eviction, evict, is_admitted, reserve_quota
from multiqueue.controllers.place_writer import PlaceWriter, Placing, placed_status
from multiqueue.engine.plan import CyclePlan, PlaceFailed, PlacePods
from multiqueue.kube.errors import NotFound, ServerError
from multiqueue.model.topology import HOSTNAME, TopologyAssignment, TopologyDomain
from multiqueue.model.workload import Admission, PodSetAssignment
from tests.builders.workloads import T0, admitted, make_workload, with_status

KEY = "team-a/a"


def make_place(*nodes: str, delayed: str = "") -> PlacePods:
    topology = TopologyAssignment((HOSTNAME,), tuple(TopologyDomain((n,), 1) for n in nodes))
    pods = PodSetAssignment(name="main", topology=topology, delayed_topology=delayed)
    admission = Admission(cluster_queue="cq", pod_sets=(pods,))
    return PlacePods(workload=KEY, cluster_queue="cq", admission=admission)


def make_holder(*failed: str, **assignment: object) -> Workload:
    """A workload that runs, with failed nodes and a changed assignment."""
    workload = admitted(make_workload("a"))
    admission = workload.status.admission
    assert admission is not None
    pods = msgspec.structs.replace(admission.pod_set_assignments[0], **assignment)
    status = msgspec.structs.replace(
        workload.status,
        admission=msgspec.structs.replace(admission, pod_set_assignments=(pods,)),
        unhealthy_nodes=tuple(UnhealthyNode(name=name) for name in failed),
    )
    return with_status(workload, status)


def written(workload: Workload, place: PlacePods) -> api.WorkloadStatus:
    return placed_status(workload, Placing.of(place, workload), T0)


def test_only_places_and_failed_nodes_change() -> None:
    workload = make_holder("n1")
    status = written(workload, make_place("n2"))
    assert workload.status.admission is not None
    assert status.admission is not None
    (before,), (after,) = (
        admission.pod_set_assignments for admission in (workload.status.admission, status.admission)
    )
    wanted = {
        "levels": [HOSTNAME],
        "slices": [
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": "n2"}],
                "podCounts": {"universal": 1},
            }
        ],
    }
    assert after == msgspec.structs.replace(before, topology_assignment=wanted)
    assert status.unhealthy_nodes == ()


def test_a_node_that_failed_meanwhile_stays_on_the_list() -> None:
    status = written(make_holder("n1", "n2"), make_place("n2", "n3"))
    assert [node.name for node in status.unhealthy_nodes] == ["n2"]


def test_a_topology_that_was_left_for_later_completes_the_admission() -> None:
    workload = make_holder(delayed_topology_request="Pending")
    conditions = tuple(c for c in workload.status.conditions if c.type != "Admitted")
    status = msgspec.structs.replace(workload.status, conditions=conditions)
    assert not is_admitted(status)
    status = written(with_status(workload, status), make_place("n1", delayed="Ready"))
    assert is_admitted(status)
    assert status.admission is not None
    assert status.admission.pod_set_assignments[0].delayed_topology_request == "Ready"


def test_a_workload_that_has_to_leave_gets_no_places() -> None:
    workload = make_holder("n1")
    evicted = evict(workload.status, "Preempted", "for another", now=T0, generation=1)
    assert written(with_status(workload, evicted), make_place("n2")) == evicted
    gone = complete_eviction(evicted, now=T0, generation=1)
    assert written(with_status(workload, gone), make_place("n2")) == gone


def test_another_workload_of_that_name_gets_no_places() -> None:
    workload = make_holder("n1")
    metadata = msgspec.structs.replace(workload.metadata, uid="former")
    former = msgspec.structs.replace(workload, metadata=metadata)
    place = Placing.of(make_place("n2"), former)
    assert placed_status(workload, place, T0) == workload.status


def test_another_admission_gets_no_places() -> None:
    workload = make_holder("n1")
    place = Placing.of(make_place("n2"), workload)
    later = T0 + timedelta(minutes=5)
    gone = complete_eviction(evict(workload.status, "Preempted", "", now=later), now=later)
    admission = workload.status.admission
    assert admission is not None
    again = with_status(workload, reserve_quota(gone, admission, now=later))
    assert placed_status(again, place, later) == again.status


class PlaceFixture:
    """The writer with a workload instead of a server; notes what the engine is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.workload = make_holder("n1")
        self.error = error
        self.told: list[str] = []
        self.events: list[str] = []
        store = SimpleNamespace(get={KEY: self.workload}.get)
        context: Any = SimpleNamespace(
            informers=SimpleNamespace(workloads=SimpleNamespace(store=store)),
            writer=self,
            recorder=SimpleNamespace(event=lambda *event: self.events.append(event[2])),
            clock=SimpleNamespace(now=lambda: T0),
        )
        engine: Any = SimpleNamespace(
            places_written=lambda key, _: self.told.append(f"written {key}"),
            places_failed=lambda key, _: self.told.append(f"failed {key}"),
        )
        self.writer = PlaceWriter(context, engine, on_failed=lambda: self.told.append("again"))

    async def update_status(self, _: str, change: Any) -> Workload:
        if self.error is not None:
            raise self.error
        self.workload = with_status(self.workload, change(self.workload))
        return self.workload

    async def write(self, *decisions: PlacePods | PlaceFailed) -> None:
        self.writer.apply(CyclePlan(decisions=decisions))
        running = asyncio.create_task(self.writer.run())
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, [f"written {KEY}"]),
        (NotFound("gone"), [f"written {KEY}"]),
        (ServerError("busy"), [f"failed {KEY}", "again"]),
        (RuntimeError("a surprise"), [f"failed {KEY}", "again"]),
    ],
)
async def test_the_engine_hears_how_it_ended(error: Exception | None, told: list[str]) -> None:
    shell = PlaceFixture(error)
    await shell.write(make_place("n2"))
    assert shell.told == told
    assert bool(shell.workload.status.unhealthy_nodes) == (error is not None)


async def test_waiting_on_is_an_event() -> None:
    shell = PlaceFixture()
    await shell.write(PlaceFailed(workload=KEY, cluster_queue="cq", message="no room"))
    assert shell.events == ["SecondPassFailed"]
    assert shell.told == []
