"""What a worker's "not found" tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.dispatch.execute.worker_writes import RemoteWriter
from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.kube.errors import NotFound, RequestTimeout, ServerError, TooManyRequests
from multiqueue.workers.owner import ManagerIdentity
from tests.virtual_time import virtual_time


class Unanswered:
    """Takes what is created, and loses the first answers."""

    def __init__(self, lost: list[Exception], *, takes: bool = True) -> None:
        self._lost = lost
        self._takes = takes
        self._job: dict[str, Any] | None = None
        self.known: list[dict[str, Any]] = []

    def observe(self, job: dict[str, Any]) -> None:
        self.known.append(job)

    async def create(self, _resource: object, body: dict[str, Any]) -> None:
        self._job = body if self._takes else None
        raise RequestTimeout("no answer")

    async def get(self, *_: object, **__: object) -> dict[str, Any]:
        if self._lost:
            raise self._lost.pop(0)
        if self._job is None:
            raise NotFound(404, details={"name": "train", "kind": "jobs"})
        return self._job


def make_writer(error: NotFound) -> RemoteWriter:
    async def get(*_: object, **__: object) -> None:
        raise error

    session = SimpleNamespace(
        client=SimpleNamespace(get=get), owner=ManagerIdentity(origin="multikueue")
    )
    return RemoteWriter(session)


async def test_an_object_that_is_not_found_is_gone():
    writer = make_writer(NotFound(404, details={"name": "train", "kind": "jobs"}))
    assert await writer.find_job(BatchJobAdapter(), "ns", "train") is None
    assert await writer.find_workload("ns/train") is None


def make_owned_job() -> dict[str, Any]:
    labels = {names.MULTIKUEUE_ORIGIN: "multikueue", names.PREBUILT_WORKLOAD_NAME: "w"}
    return {"metadata": {"name": "train", "namespace": "ns", "uid": "u", "labels": labels}}


def make_unanswered(client: Unanswered) -> RemoteWriter:
    session = SimpleNamespace(
        client=client,
        owner=ManagerIdentity(origin="multikueue"),
        informers=SimpleNamespace(jobs={BatchJobAdapter().gvk: client}),
    )
    return RemoteWriter(session)


@virtual_time
async def test_a_job_whose_creation_was_not_answered_counts_until_it_is_known_of():
    """I-1: were it taken for absent meanwhile, another cluster would get one, too."""
    client = Unanswered([RequestTimeout("again"), ServerError(503), TooManyRequests(429)])
    made = await make_unanswered(client).create_job(BatchJobAdapter(), make_owned_job(), "w")
    assert isinstance(made, dict)
    assert client.known == [made]
    lost = Unanswered([ServerError(500)], takes=False)
    with pytest.raises(RequestTimeout):
        await make_unanswered(lost).create_job(BatchJobAdapter(), make_owned_job(), "w")


async def test_where_the_kind_is_not_found_nobody_knows_of_the_object():
    """M-45, M-83."""
    writer = make_writer(NotFound(404, message="404 page not found"))
    with pytest.raises(NotFound):
        await writer.find_job(BatchJobAdapter(), "ns", "train")
    with pytest.raises(NotFound):
        await writer.find_workload("ns/train")
