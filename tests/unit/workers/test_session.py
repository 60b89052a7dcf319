"""Work on a worker while its session ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import MULTIKUEUE_ORIGIN
from multiqueue.workers.connections.session import CREATE_JOB, REMOVE, WorkerSession
from multiqueue.workers.owner import ManagerIdentity

OWNER = ManagerIdentity(origin="here")


@contextlib.asynccontextmanager
async def ending_session() -> AsyncIterator[WorkerSession]:
    """A session whose tasks are cancelled when the block ends, as when its worker is lost."""
    with contextlib.suppress(asyncio.CancelledError):
        async with asyncio.TaskGroup() as tasks:
            session = WorkerSession(
                client=None, informers=None, adapters=(), tasks=tasks, owner=OWNER
            )
            yield session
            session.close()
            raise asyncio.CancelledError


async def test_work_that_had_not_begun_when_the_session_ended_is_cancelled():
    async with ending_session() as session:
        future = session.submit("copy", "ns/w", asyncio.Event().wait)
    assert future.cancelled()


async def test_work_that_was_under_way_is_cancelled_and_leaves_no_slot():
    async with ending_session() as session:
        first = session.submit("copy", "ns/w", asyncio.Event().wait)
        await asyncio.sleep(0)
    assert first.cancelled()
    assert session.submit("copy", "ns/w", asyncio.Event().wait) is not first


async def test_a_closed_session_takes_no_more_work():
    begun = []

    async def work() -> None:
        begun.append("work")

    async with ending_session() as session:
        session.close()
        future = session.submit("copy", "ns/w", work)
        await asyncio.sleep(0)
    assert future.cancelled()
    assert not begun


async def test_nor_does_one_whose_tasks_have_ended():
    async with ending_session() as session:
        pass
    first = session.submit("copy", "ns/w", asyncio.Event().wait)
    assert first.cancelled()
    assert session.submit("copy", "ns/w", asyncio.Event().wait) is not first


def make_copy(uid: str) -> api.Workload:
    labels = {MULTIKUEUE_ORIGIN: "here"}
    metadata = api.ObjectMeta(name="w", namespace="ns", uid=uid, labels=labels)
    return api.Workload(metadata=metadata)


def test_a_copy_that_we_deleted_is_going_until_the_watch_shows_that_it_is_gone():
    """Its worker had admitted it: it would win before it is seen to be gone."""
    store = {"ns/w": make_copy("u1")}
    informers = SimpleNamespace(workloads=SimpleNamespace(store=store))
    session = WorkerSession(None, informers, adapters=(), tasks=None, owner=OWNER)
    session.note_deleted(store["ns/w"])
    assert session.find_copy("ns/w").metadata.deletion_timestamp
    store.clear()
    assert session.find_copy("ns/w") is None
    store["ns/w"] = make_copy("u2")
    assert not session.find_copy("ns/w").metadata.deletion_timestamp


async def test_a_copy_that_is_being_removed_does_not_win_before_that_is_done():
    """The worker shed the request, which is sent again a second later."""
    store = {"ns/w": make_copy("u1")}
    async with asyncio.TaskGroup() as tasks:
        informers = SimpleNamespace(workloads=SimpleNamespace(store=store))
        session = WorkerSession(None, informers, adapters=(), tasks=tasks, owner=OWNER)
        done = asyncio.Event()
        future = session.submit(REMOVE, "ns/w", done.wait)
        assert session.find_copy("ns/w").metadata.deletion_timestamp
        done.set()
        await future
        assert not session.find_copy("ns/w").metadata.deletion_timestamp


async def test_jobs_on_their_way_count_as_jobs():
    informers = SimpleNamespace(jobs={})
    async with ending_session() as session:
        session.informers = informers
        future = session.submit(CREATE_JOB, "ns/w", lambda: asyncio.sleep(0))
        session.submit("copy", "ns/w", asyncio.Event().wait)
        assert session.job_count == 1
        await future
        assert session.job_count == 0
        session.submit(CREATE_JOB, "ns/w", asyncio.Event().wait)
    await asyncio.sleep(0)
    assert session.job_count == 0
