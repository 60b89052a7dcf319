"""Slices before and after one, where some of the chain were deleted here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload
from multiqueue.dispatch.decide.slice_chain import Successor
from multiqueue.dispatch.observe.lineage import Lineage
from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.jobs.context import Informers
from multiqueue.jobs.informers import WORKLOAD_INDEXES
from multiqueue.kube.store import Store
from multiqueue.workers.connections.fleet import Fleet
from tests.builders.workloads import NAMESPACE, admitted, evicted, make_workload, with_status


def key(name: str) -> str:
    return f"{NAMESPACE}/{name}"


def slice_(name: str, replaces: str, cluster: str = "a") -> Workload:
    annotations = {
        names.ELASTIC_JOB: "true",
        names.WORKLOAD_SLICE_REPLACEMENT_FOR: key(replaces),
    }
    workload = admitted(make_workload(name, annotations=annotations, owner_uid="here"))
    return with_status(workload, replace(workload.status, cluster_name=cluster))


class Worker:
    """Has a job of ours that belongs to a slice."""

    def __init__(self, slice_: str, *, job: str = "job", ours: bool = True) -> None:
        annotations = {names.PREBUILT_WORKLOAD_NAME: slice_}
        metadata = {"name": job, "namespace": NAMESPACE, "annotations": annotations}
        self._job, self._slice = {"metadata": metadata}, slice_
        kind = BatchJobAdapter.gvk
        found = {key(job): self._job}
        self.informers = SimpleNamespace(jobs={kind: SimpleNamespace(store=found)})
        self.owner = SimpleNamespace(owns_job=lambda _: ours)

    def find_jobs(self, wanted: str) -> list[Any]:
        return [(BatchJobAdapter.gvk, self._job)] if wanted == key(self._slice) else []


def lineage(worker: Worker, *known: Workload) -> Lineage:
    store: Store[Workload] = Store(WORKLOAD_INDEXES)
    for workload in known:
        store.put(workload.metadata.key, workload)
    fleet = SimpleNamespace(
        adapters=(BatchJobAdapter(),),
        find_session=lambda name: worker if name == "a" else None,
        find_holders=lambda wanted: ["a"] if worker.find_jobs(wanted) else [],
    )
    informers = SimpleNamespace(workloads=SimpleNamespace(store=store))
    return Lineage(cast("Informers", informers), cast("Fleet", fleet))


def test_a_slice_takes_over_from_the_one_that_the_job_names() -> None:
    """Two between the two were deleted."""
    five = slice_("five", "four")
    found = lineage(Worker("two"), five)
    assert found.list_earlier(five) == (key("four"), key("two"))
    assert found.find_successor(key("two"), None) == Successor(cluster="a")
    assert found.list_later(key("two")) == [key("five")]


@pytest.mark.parametrize(
    ("worker", "five"),
    [
        (Worker("five"), slice_("five", "four")),
        (Worker("two", job="other"), slice_("five", "four")),
        (Worker("two", ours=False), slice_("five", "four")),
        (Worker("two"), slice_("five", "four", cluster="b")),
    ],
    ids=["has the job", "another job", "somebody else's", "elsewhere"],
)
def test_nothing_else_is_taken_over(worker: Worker, five: Workload) -> None:
    found = lineage(worker, five)
    assert found.list_earlier(five) == (key("four"),)
    assert found.find_successor(key("two"), None) is None


def test_who_is_evicted_is_no_heir() -> None:
    found = lineage(Worker("two"), evicted(slice_("five", "four")))
    assert found.find_successor(key("two"), None) is None


def test_who_is_there_and_has_not_ended_has_the_heirs_that_name_it() -> None:
    """A slice that holds quota itself, beside another one of its job, is not over."""
    two, five = slice_("two", "one"), slice_("five", "four")
    assert lineage(Worker("two"), two, five).find_successor(key("two"), two) is None
