"""What `clusters show` says about one worker."""

from __future__ import annotations

from typing import Any

from multiqueue.api.v1beta2 import MultiKueueCluster
from multiqueue.api.v1beta2.meta import ObjectMeta
from multiqueue.cli.views.worker import (
    describe_worker,
    list_flavor_rows,
    list_job_rows,
    split_jobs,
)
from multiqueue.views.workers import WorkerFacts, build_worker_row
from tests.builders.workloads import T0

GPU = "nvidia.com/gpu"


def make_worker(**fields: Any) -> dict[str, Any]:
    cluster = MultiKueueCluster(metadata=ObjectMeta(name="west"))
    return {**build_worker_row(cluster, WorkerFacts()), **fields}


def make_standing(name: str, **fields: Any) -> dict[str, Any]:
    status = {
        "job": f"Job/{name}",
        "phase": "Running",
        "words": "running on west",
        "worker": "west",
        "offeredTo": [],
        "gpus": 4,
        "localQueue": "jobs",
        "since": "2026-01-01T00:00:00Z",
        "why": "",
    }
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "status": {**status, **fields},
    }


def test_a_worker_in_facts() -> None:
    worker = make_worker(
        connected=True,
        why="",
        since="2025-12-31T21:00:00Z",
        health=0.97,
        gpus=12,
        used=10,
        free=2,
        use={"state": "Draining", "message": "3 moved, 2 left", "reason": "psu swap"},
        warnings=["the token ends in 6h"],
    )
    assert list(describe_worker("west", worker, T0)) == [
        "west: connected for 3h",
        "use: draining (psu swap: 3 moved, 2 left)",
        "health: 97%",
        "GPUs: 10 of 12 in use, 2 free",
        "warning: the token ends in 6h",
    ]


def test_what_is_not_known_of_a_worker_is_said() -> None:
    assert list(describe_worker("west", make_worker(), T0)) == [
        "west: out of reach",
        "use: in use",
        "health: not known",
        "GPUs: not known",
        "warning: no manager has looked at it",
    ]


def test_flavors_have_their_figures() -> None:
    flavor = {"flavor": "a100", "resource": GPU, "total": 8, "used": 6, "free": 2}
    assert list_flavor_rows(make_worker(flavors=[flavor])) == [["a100", GPU, 8, 6, 2]]


def test_jobs_there_are_apart_from_those_that_are_offered() -> None:
    here = make_standing("here")
    elsewhere = make_standing("elsewhere", worker="east")
    done = make_standing("done", phase="Succeeded")
    offered = make_standing("offered", phase="Dispatched", worker=None, offeredTo=["east", "west"])
    assert split_jobs([here, elsewhere, done, offered, here, offered], "west") == (
        [here],
        [offered],
    )
    assert list_job_rows([here], T0) == [
        ["Job/here", "team", 4, "jobs", "running on west", "0s", ""]
    ]
