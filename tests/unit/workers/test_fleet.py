"""One server under two addresses: the older name is used, whichever answers first."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import NoReturn

from multiqueue.kube.clock import SystemClock
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.workers.connections.connection_state import ConnectionState
from multiqueue.workers.connections.fleet import Fleet
from multiqueue.workers.kubeconfigs.credentials import SafeKubeconfig
from tests.virtual_time import virtual_time

OLD, NEW = ("2026-01-01T00:00:00Z", "old"), ("2026-01-02T00:00:00Z", "new")


def make_fleet() -> Fleet:
    fleet = Fleet(
        adapters=(),
        origin="o",
        clock=SystemClock(),
        metrics=ManagerMetrics(),
    )
    for age, address in ((OLD, "https://one"), (NEW, "https://two")):
        fleet.servers.update(age, address)
        fleet.ensure(age[1], lost_for=None).configure(SafeKubeconfig(config={}, server=address))
    return fleet


async def identify(fleet: Fleet, name: str, identity: str) -> bool:
    return await fleet.identify(fleet.find(name), identity)


async def test_a_younger_name_waits_for_what_the_older_says():
    fleet = make_fleet()
    younger = asyncio.create_task(identify(fleet, "new", "uid"))
    await asyncio.sleep(0)
    assert not younger.done()
    assert await identify(fleet, "old", "uid")
    assert not await younger


async def test_a_younger_name_does_not_wait_for_one_that_does_not_answer():
    fleet = make_fleet()
    younger = asyncio.create_task(identify(fleet, "new", "uid"))
    await asyncio.sleep(0)
    elder = fleet.find("old")
    elder.state = ConnectionState.DISCONNECTED
    fleet.state_changed(elder)
    assert await younger


async def test_a_younger_name_is_let_go_when_the_older_turns_out_to_be_the_same_server():
    fleet = make_fleet()
    fleet.find("old").state = ConnectionState.DISCONNECTED
    assert await identify(fleet, "new", "uid")
    fleet.find("new").state = ConnectionState.CONNECTED
    assert await identify(fleet, "old", "uid")
    assert fleet.find("new").state is ConnectionState.REFUSED


class FaultyClock(SystemClock):
    """A clock that raises until it is mended."""

    is_broken = True

    def now(self) -> datetime:
        if self.is_broken and asyncio.current_task().get_name().startswith("worker "):
            raise ValueError("an error that nobody expected")
        return super().now()


@virtual_time
async def test_a_connection_that_raises_starts_again_and_the_fleet_goes_on():
    clock, metrics, opened = FaultyClock(), ManagerMetrics(), []

    def open_transport(*_: object, **__: object) -> NoReturn:
        opened.append(None)
        raise OSError("no network in this test")

    fleet = Fleet(
        adapters=(),
        origin="o",
        clock=clock,
        metrics=metrics,
        open_transport=open_transport,
    )
    server = "https://127.0.0.1:1"
    context = {"name": "c", "context": {"cluster": "c"}}
    cluster = {"name": "c", "cluster": {"server": server}}
    config = {"contexts": [context], "clusters": [cluster], "current-context": "c"}
    fleet.ensure("w1", lost_for=None).configure(SafeKubeconfig(config=config, server=server))
    running = asyncio.create_task(fleet.run())
    await asyncio.sleep(30)
    clock.is_broken = False
    tries = len(opened)
    await asyncio.sleep(120)
    assert not running.done()
    assert 2 <= tries < len(opened)
    assert "the manager's log" in fleet.find("w1").status.message
    (family,) = metrics.component_restarts_total.metric.collect()
    assert [each.value >= 2 for each in family.samples if each.name.endswith("_total")] == [True]
    running.cancel()
    await asyncio.wait({running})
