"""Jobs that say how many pods do on other hardware."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.config import Gates
from multiqueue.jobs.batch_job.webhook import validate_job_create, validate_job_update
from tests.unit.webhooks.test_batch_job import job

PATH = f"metadata.annotations[{names.ALTERNATIVES}]"


def gang(text: str | None = "h100=4", *, pods: int = 8, suspend: bool = True, **more: Any) -> dict:
    annotations = {names.ALTERNATIVES: text, **more} if text is not None else more
    return job(annotations=annotations, parallelism=pods, completions=pods, suspend=suspend)


def found(errors: list) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize("text", ["h100=4", "h100=4,b200=2", "main:h100=8", ""])
def test_what_can_be_done_is_taken(text: str) -> None:
    assert not validate_job_create(gang(text), Gates())


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (gang("h100"), "is not HARDWARE=PODS, such as h100=4"),
        (gang("h100=16"), "16 pods on h100 are more than the 8 of the job; ask for the largest"),
        (gang("workers:h100=4"), 'there are no pods "workers", only main'),
        (gang(**{names.JOB_MIN_PARALLELISM: "2"}), "cannot be used together"),
        (gang(**{names.ELASTIC_JOB: "true"}), "elastic jobs have no alternatives"),
    ],
)
def test_what_cannot_is_refused_by_name(obj: dict, why: str) -> None:
    (error,) = found(validate_job_create(obj, Gates()))

    assert error.startswith(PATH)
    assert why in error


def test_slices_of_a_topology_must_fit_the_fewest_pods() -> None:
    obj = gang()
    obj["spec"]["template"]["metadata"] = {
        "annotations": {names.PODSET_SLICE_REQUIRED_TOPOLOGY: "rack", names.PODSET_SLICE_SIZE: "8"}
    }
    (error,) = found(validate_job_create(obj, Gates()))

    assert "must not be greater than pod set count 4" in error


def test_our_own_writes_are_taken() -> None:
    """Started with the fewest, although the other alternative then is more than the job has."""
    asked = gang("h100=2,b200=4")
    started = gang("h100=2,b200=4", pods=2, suspend=False)
    stopped = gang("h100=2,b200=4", pods=2)
    for old, new in ((asked, started), (started, stopped), (stopped, asked)):
        assert not validate_job_update(new, old, Gates())


def test_users_change_neither_the_annotation_nor_the_size_of_what_runs() -> None:
    runs = gang(suspend=False)
    for new, old, path in (
        (gang("h100=2"), gang(), PATH),
        (gang(None), gang(), PATH),
        (gang(pods=6, suspend=False), runs, "spec.parallelism"),
        (gang(pods=3), gang(), PATH),
    ):
        (error,) = found(validate_job_update(new, old, Gates()))
        assert error.startswith(path)
    assert not validate_job_update(gang(pods=6), gang(), Gates())
