"""What a worker's "not found" tells."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.kube.errors import NotFound
from multiqueue.multikueue.owner import Owner
from multiqueue.multikueue.remote import RemoteWriter


def make_writer(error: NotFound) -> RemoteWriter:
    async def get(*_: object, **__: object) -> None:
        raise error

    session = SimpleNamespace(client=SimpleNamespace(get=get), owner=Owner(origin="multikueue"))
    return RemoteWriter(session)


async def test_an_object_that_is_not_found_is_gone():
    writer = make_writer(NotFound(404, details={"name": "train", "kind": "jobs"}))
    assert await writer.find_job(BatchJobAdapter(), "ns", "train") is None
    assert await writer.find_workload("ns/train") is None


async def test_where_the_kind_is_not_found_nobody_knows_of_the_object():
    writer = make_writer(NotFound(404, message="404 page not found"))
    with pytest.raises(NotFound):
        await writer.find_job(BatchJobAdapter(), "ns", "train")
    with pytest.raises(NotFound):
        await writer.find_workload("ns/train")
