"""Informers, Events and leader election against the embedded API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import NotFound, TransportError
from multiqueue.kube.events import EventRecorder, build_reference
from multiqueue.kube.informer import Informer
from multiqueue.kube.informer_state import InformerState
from multiqueue.kube.leader_election import LeaderElector
from multiqueue.kube.resources import CONFIG_MAPS, EVENTS, LEASES, WORKLOADS
from tests.integration.test_kube_client import NAMESPACE, cluster, config_map

Obj = dict[str, Any]


@asynccontextmanager
async def running(*runnables: Any) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(runnable.run()) for runnable in runnables]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - conditions are about many things
            await asyncio.sleep(0.01)


async def listed(client: KubeClient) -> dict[str, str]:
    items = (await client.list(CONFIG_MAPS, namespace=NAMESPACE)).items
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in items}


def stored(informer: Informer[Obj]) -> dict[str, str]:
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in informer.store.list()}


async def write_at_random(client: KubeClient, informer: Informer[Obj], seed: int) -> None:
    """Two hundred writes; the answer of every other one is observed, as controllers do."""
    chance = random.Random(seed)
    for number in range(200):
        name = f"c{chance.randrange(10)}"
        try:
            if chance.random() < 0.3:
                await client.delete(CONFIG_MAPS, name, namespace=NAMESPACE)
                continue
            answer = await client.patch(
                CONFIG_MAPS, name, {"data": {"n": str(number)}}, namespace=NAMESPACE
            )
        except NotFound:
            answer = await client.create(CONFIG_MAPS, config_map(name))
        if number % 2:
            informer.observe(answer)
            assert int(stored(informer).get(name, "0")) >= int(
                answer["metadata"]["resourceVersion"]
            )


async def test_a_store_ends_as_the_server_whatever_was_written() -> None:
    async with cluster() as (_, client):
        informer: Informer[Obj] = Informer(client, CONFIG_MAPS, namespace=NAMESPACE)
        mirrored: dict[str, Obj] = {}

        def follow(old: Obj | None, new: Obj | None) -> None:
            name = (new or old or {})["metadata"]["name"]
            assert mirrored.get(name) == old
            if new is None:
                del mirrored[name]
            else:
                mirrored[name] = new

        informer.add_handler(follow)
        async with running(informer):
            await asyncio.wait_for(informer.synced.wait(), 10)
            await write_at_random(client, informer, seed=1)
            want = await listed(client)
            await until(lambda: stored(informer) == want)
            assert {n: o["metadata"]["resourceVersion"] for n, o in mirrored.items()} == want


async def test_a_server_that_was_away_is_found_again_with_what_changed(tmp_path: Path) -> None:
    async with ApiServer(ServerOptions(data_dir=tmp_path)) as server:
        port = int(server.url.rsplit(":", 1)[1])
        config = server.kubeconfig()
        client = KubeClient(await Credentials.from_kubeconfig_dict(config))
        await client.create(CONFIG_MAPS, config_map("kept"))
        await client.create(CONFIG_MAPS, config_map("deleted"))
        informer: Informer[Obj] = Informer(client, CONFIG_MAPS, namespace=NAMESPACE)
        task = asyncio.ensure_future(informer.run())
        await until(lambda: len(informer.store) == 2)
    await until(lambda: informer.state is InformerState.RETRYING)
    assert isinstance(informer.last_error, TransportError)
    assert len(informer.store) == 2
    async with ApiServer(ServerOptions(data_dir=tmp_path, port=port)):
        await client.delete(CONFIG_MAPS, "deleted", namespace=NAMESPACE)
        await client.create(CONFIG_MAPS, config_map("new"))
        await until(lambda: informer.store.keys() == ["default/kept", "default/new"])
        assert informer.state is InformerState.WATCHING
        task.cancel()
        await asyncio.wait({task})
        await client.close()


async def test_a_version_that_the_server_forgot_costs_no_change() -> None:
    async with cluster(history_length=4) as (_, client):
        informer: Informer[Obj] = Informer(client, CONFIG_MAPS, namespace=NAMESPACE)
        async with running(informer):
            await asyncio.wait_for(informer.synced.wait(), 10)
            await write_at_random(client, informer, seed=2)
            want = await listed(client)
            await until(lambda: stored(informer) == want)


async def test_a_kind_whose_crd_is_missing_is_reported_at_once() -> None:
    async with cluster() as (_, client):
        informer: Informer[Obj] = Informer(client, WORKLOADS)
        async with running(informer):
            await asyncio.wait_for(informer.settled.wait(), 10)
            assert not informer.available


async def test_events_can_be_read_where_they_belong() -> None:
    async with cluster() as (_, client):
        made = await client.create(CONFIG_MAPS, config_map("a"))
        recorder = EventRecorder(client, "kueue-admission")
        reference = build_reference(made, CONFIG_MAPS)
        events: Informer[Obj] = Informer(
            client, EVENTS, namespace=NAMESPACE, field_selector="involvedObject.name=a"
        )
        async with running(recorder, events):
            recorder.event(reference, "Warning", "Pending", "no quota")
            await until(lambda: len(events.store) == 1)
            recorder.event(reference, "Warning", "Pending", "no quota")

            await until(lambda: [e["count"] for e in events.store.list()] == [2])
        assert recorder.dropped == 0


async def test_a_standby_takes_over_when_the_leader_leaves() -> None:
    async with cluster() as (_, client):

        def elect(identity: str) -> tuple[asyncio.Event, asyncio.Future[Any]]:
            began = asyncio.Event()

            async def work() -> None:
                began.set()
                await asyncio.Event().wait()

            elector = LeaderElector(
                client,
                NAMESPACE,
                "manager",
                identity=identity,
                lease=timedelta(seconds=3),
                renew=timedelta(seconds=2),
                retry=timedelta(seconds=0.1),
            )
            return began, asyncio.ensure_future(elector.run(work))

        first, leader = elect("one")
        await asyncio.wait_for(first.wait(), 5)
        second, standby = elect("two")
        await asyncio.sleep(0.5)
        assert not second.is_set()
        leader.cancel()
        await asyncio.wait_for(second.wait(), 2)
        lease = await client.get(LEASES, "manager", namespace=NAMESPACE)
        assert lease["spec"]["holderIdentity"] == "two"
        assert lease["spec"]["leaseTransitions"] == 1
        standby.cancel()
        await asyncio.wait({leader, standby})
