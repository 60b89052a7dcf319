"""The table of kinds: what is queued, and what is said of an object that is not."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.job_kinds import (
    JOB_KINDS,
    KNOWN_FRAMEWORKS,
    SUPPORTED_FRAMEWORKS,
    UNSUPPORTED,
)
from multiqueue.api.names import QUEUE_NAME
from multiqueue.api.validation.unqueued import find_unqueued

ASKED = {"labels": {QUEUE_NAME: "q"}}


def owned_by(kind: str, api_version: str, *, controller: bool = True) -> dict[str, Any]:
    owner = {"kind": kind, "apiVersion": api_version, "name": "o", "controller": controller}
    return {**ASKED, "ownerReferences": [owner]}


def pod(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def test_a_kind_leaves_the_unsupported_ones_when_it_gets_an_integration() -> None:
    assert SUPPORTED_FRAMEWORKS <= KNOWN_FRAMEWORKS
    queued = {row.kind for row in JOB_KINDS} - {row.kind for row in UNSUPPORTED}
    assert queued == {row.kind for row in JOB_KINDS if row.folder}


@pytest.mark.parametrize("row", UNSUPPORTED, ids=lambda row: row.kind)
def test_an_object_that_names_a_queue_and_is_not_queued_is_found(row: Any) -> None:
    obj = {"apiVersion": f"{row.group}/v1", "kind": row.kind, "metadata": ASKED}
    found = find_unqueued(obj if row.group else pod(ASKED))
    assert found is not None
    assert "runs at once, outside of every quota" in found.what
    assert find_unqueued({**obj, "metadata": {}}) is None


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": ASKED},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": ASKED},
        {"apiVersion": "example.com/v1", "kind": "Pod", "metadata": ASKED},
        pod(owned_by("Job", "batch/v1")),
        pod({"labels": {QUEUE_NAME: ""}}),
        pod({"labels": [QUEUE_NAME], "ownerReferences": {"kind": "Job"}}),
        {"apiVersion": 1, "kind": ["Pod"], "metadata": ASKED},
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": ASKED,
            "spec": {"jobTemplate": {"metadata": ASKED}},
        },
    ],
    ids=[
        "a Job",
        "no job at all",
        "the same kind of another group",
        "the pod of a Job",
        "an empty label",
        "a malformed object",
        "a malformed kind",
        "a CronJob whose Jobs are queued",
    ],
)
def test_nothing_is_said_of_others(obj: dict[str, Any]) -> None:
    assert find_unqueued(obj) is None


@pytest.mark.parametrize(
    ("metadata", "is_found"),
    [
        (owned_by("ReplicaSet", "apps/v1"), True),
        (owned_by("Job", "batch/v1", controller=False), True),
        (owned_by("Job", "batch/v1"), False),
    ],
    ids=["a kind that is not queued", "no controller", "a queued job"],
)
def test_what_a_queued_job_made_counts_with_it(metadata: dict[str, Any], is_found: bool) -> None:
    made = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata}
    assert bool(find_unqueued(made)) is is_found


def test_a_cron_job_is_told_where_its_label_belongs() -> None:
    found = find_unqueued({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": ASKED})
    assert found is not None
    assert "spec.jobTemplate.metadata.labels" in found.todo
