"""Where a Workload is offered first is written with its quota, or decided after that."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.view import GroupView
from multiqueue.dispatch.gate import PATIENCE_SECONDS, DispatchGate
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.kube.errors import Conflict
from multiqueue.plugins import Nomination
from tests.unit.dispatch.builders import T0, make_cluster, make_local, make_nomination
from tests.virtual_time import virtual_time

ANSWER_SECONDS = 0.01


def make_reserved(check: str = "multikueue", state: str = "Pending") -> api.Workload:
    body = {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": "train", "namespace": "ns", "uid": "u"},
        "spec": {"podSets": []},
        "status": {
            "admissionChecks": [
                {"name": check, "state": state, "message": "", "lastTransitionTime": ""}
            ]
        },
    }
    return decode(api.Workload, body)


class Dispatcher:
    """Answers all alike, after a while; asked through a view of one Workload with two clusters."""

    def __init__(self, answer: Nomination, seconds: float = ANSWER_SECONDS) -> None:
        self.answer, self.seconds = answer, seconds
        self.asked = 0
        self.forgotten: list[str] = []
        self.told: list[str] = []
        self.memory = GroupMemory()
        self.leads = True
        event = SimpleNamespace(event=lambda *a, **_: self.told.append(a[-1]))
        checks = {
            "multikueue": SimpleNamespace(
                spec=SimpleNamespace(controller_name=names.MULTIKUEUE_CONTROLLER)
            )
        }
        informers = SimpleNamespace(admission_checks=SimpleNamespace(store=checks))
        context: Any = SimpleNamespace(
            clock=SimpleNamespace(now=lambda: T0), informers=informers, recorder=event
        )
        observer: Any = SimpleNamespace(foresee=self._see)
        capacity: Any = SimpleNamespace()
        notices: Any = SimpleNamespace(follow=None, annotate=None, find_client=None)
        self.gate = DispatchGate(
            context,
            capacity,
            GroupConfig(),
            observer,
            ask=self._ask,
            recall=lambda _: self.memory,
            forget=self.forgotten.append,
            find_fleet_version=lambda: 1 if self.leads else None,
            notices=notices,
        )

    def _see(self, reserved: api.Workload, memory: GroupMemory, version: int) -> Observation:
        view = GroupView(
            key="ns/train", local=make_local(), clusters=(make_cluster("a"), make_cluster("b"))
        )
        return Observation(view=view, workload=reserved)

    async def _ask(self, seen: Observation, memory: GroupMemory) -> Observation:
        self.asked += 1
        await asyncio.sleep(self.seconds)
        memory.asked_at = T0
        return replace(seen, view=replace(seen.view, nomination=self.answer, ask_due=False))

    async def write(self, reserved: api.Workload | None = None) -> api.WorkloadStatus:
        """Reserve quota; returns the status that is written."""
        reserved = reserved or make_reserved()
        async with self.gate.offer(reserved) as amend:
            return amend(reserved.status)


@virtual_time
async def test_an_offer_is_written_with_the_reservation() -> None:
    dispatcher = Dispatcher(make_nomination("a"))
    status = await dispatcher.write()
    assert status.nominated_cluster_names == ("a",)
    assert status.admission_checks[0].message == 'The workload is offered to "a"'
    assert (dispatcher.memory.asked_at, dispatcher.memory.explained_at) == (T0, T0)


@virtual_time
async def test_that_no_cluster_can_take_it_is_written_and_told() -> None:
    dispatcher = Dispatcher(make_nomination(a="is full"))
    status = await dispatcher.write()
    assert status.nominated_cluster_names == ()
    assert status.admission_checks[0].message == "No cluster can take the workload now: a is full"
    assert dispatcher.told == ["No cluster can take the workload now: a is full"]


@virtual_time
async def test_what_was_not_written_is_asked_again() -> None:
    dispatcher = Dispatcher(make_nomination("a"))
    with pytest.raises(Conflict):
        async with dispatcher.gate.offer(make_reserved()):
            raise Conflict(409, message="it changed")
    assert dispatcher.memory.asked_at is None
    assert (dispatcher.forgotten, dispatcher.told) == (["u"], [])


@virtual_time
async def test_a_refusal_is_left_to_the_loop_which_asks_again() -> None:
    dispatcher = Dispatcher(Nomination(refusal="never"))
    reserved = make_reserved()
    assert await dispatcher.write(reserved) == reserved.status
    assert dispatcher.memory.asked_at is None


@virtual_time
async def test_a_check_that_waits_for_nothing_any_more_is_left_alone() -> None:
    """It was decided on an older state: what is written is built from the newest."""
    dispatcher = Dispatcher(make_nomination("a"))
    rejected = make_reserved(state="Rejected").status
    async with dispatcher.gate.offer(make_reserved()) as amend:
        assert amend(rejected) == rejected
        running = msgspec.structs.replace(make_reserved().status, cluster_name="b")
        assert amend(running) == running


@virtual_time
async def test_nobody_is_asked_about_the_checks_of_others_or_by_who_does_not_lead() -> None:
    dispatcher = Dispatcher(make_nomination("a"))
    provisioning = make_reserved(check="provisioning")
    assert await dispatcher.write(provisioning) == provisioning.status
    dispatcher.leads = False
    reserved = make_reserved()
    assert await dispatcher.write(reserved) == reserved.status
    assert dispatcher.asked == 0
    assert dispatcher.gate.may_offer(("provisioning", "multikueue"))
    assert not dispatcher.gate.may_offer(("provisioning",))


@virtual_time
async def test_no_quota_waits_long_for_a_dispatcher_that_takes_its_time() -> None:
    loop = asyncio.get_running_loop()
    dispatcher = Dispatcher(make_nomination("a"), seconds=0.9)
    begun = loop.time()
    written = await asyncio.gather(*(dispatcher.write() for _ in range(64)))
    assert loop.time() - begun <= PATIENCE_SECONDS + 0.9
    offered = [bool(status.nominated_cluster_names) for status in written]
    assert offered == [True] * 17 + [False] * 47
