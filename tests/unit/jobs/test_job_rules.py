"""The rules that the jobs of every kind have to obey."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.config import Gates
from multiqueue.api.validation.job_metadata import validate_job_metadata_update
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.job_rules import (
    KindSupport,
    validate_left_queue,
    validate_new_job,
)

LIMITED = KindSupport(gvk=GroupVersionKind("a.io", "v1", "Thing"), prebuilt=False)
GATES = Gates()


def job(labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    """A job with these labels, and annotations by the end of their key."""
    keys = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": "j", "labels": labels or {}, "annotations": keys}}


def test_a_kind_refuses_what_it_does_not_support() -> None:
    """J-55, J-58."""
    found = [str(e) for e in validate_new_job(job(elastic_job="true"), GATES, LIMITED)]
    assert found == [
        (
            "metadata.annotations[kueue.x-k8s.io/elastic-job]: Forbidden: elastic job is not"
            ' supported for "a.io/v1, Kind=Thing"'
        )
    ]
    for prebuilt, where in (
        (job(prebuilt_workload_name="w"), "annotations"),
        (job({names.PREBUILT_WORKLOAD_NAME: "w"}), "labels"),
    ):
        (error,) = validate_new_job(prebuilt, GATES, LIMITED)
        assert error.path == f"metadata.{where}[kueue.x-k8s.io/prebuilt-workload-name]"
        assert error.detail == 'Is not supported for "a.io/v1, Kind=Thing"'
        before = job({names.PREBUILT_WORKLOAD_NAME: "x"})
        (error,) = validate_job_metadata_update(
            prebuilt, before, GATES, suspended=False, was_suspended=False
        )
        assert error.path == f"metadata.{where}[kueue.x-k8s.io/prebuilt-workload-name]"
    everything = KindSupport(gvk=LIMITED.gvk, elastic=True)
    both = job(elastic_job="true", prebuilt_workload_name="w")
    assert list(validate_new_job(both, GATES, everything)) == []


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param("a.io/x,a.io/y", "a.io/y", "", id="one is removed"),
        pytest.param("a.io/x, a.io/y", "a.io/y,a.io/x", "", id="the order changes"),
        pytest.param("a.io/x", "", "", id="all are removed"),
        pytest.param("", "a.io/x", "cannot add admission gate after creation", id="one is added"),
        pytest.param(
            "a.io/x", "a.io/y", "can only remove gates, not add new ones", id="one is replaced"
        ),
    ],
)
def test_admission_gates_are_only_removed(before: str, after: str, want: str) -> None:
    """J-60."""
    old, new = (job(admission_gated_by=value) if value else job() for value in (before, after))
    errors = list(validate_job_metadata_update(new, old, GATES, suspended=True, was_suspended=True))
    assert [error.detail for error in errors] == ([want] if want else [])


def test_a_job_that_leaves_its_queue_is_refused_once() -> None:
    """J-62."""
    queued = job({names.QUEUE_NAME: "q"})
    assert validate_left_queue(queued, queued, []) == []
    assert validate_left_queue(job(), job(), []) == []
    (error,) = validate_left_queue(job(), queued, [])
    assert error.path == "metadata.labels[kueue.x-k8s.io/queue-name]"
    assert validate_left_queue(job(), queued, [error]) == []


@pytest.mark.parametrize("gates", ["a.io/x,,a.io/y", "a.io/x,a.io/x", "plain", f"a.io/{'x' * 60}"])
def test_admission_gates_that_are_none_are_refused(gates: str) -> None:
    """J-59."""
    (error,) = validate_new_job(job(admission_gated_by=gates), GATES, LIMITED)
    assert error.path == "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"


def test_an_empty_queue_name_is_refused() -> None:
    """J-53."""
    (error,) = validate_new_job(job({names.QUEUE_NAME: ""}), GATES, LIMITED)
    assert error.path == "metadata.labels[kueue.x-k8s.io/queue-name]"


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        pytest.param({}, {"multiqueue.dev/imported-at": "t"}, False, id="an import"),
        pytest.param({}, {}, True, id="somebody else"),
        pytest.param(
            {"multiqueue.dev/imported-at": "t"},
            {"multiqueue.dev/imported-at": "t"},
            True,
            id="after an import",
        ),
    ],
)
def test_only_an_import_gives_a_running_job_its_first_queue(
    before: dict[str, str], after: dict[str, str], *, is_refused: bool
) -> None:
    old, new = job(), job({names.QUEUE_NAME: "q"})
    old["metadata"]["annotations"] = before
    new["metadata"]["annotations"] = after
    found = list(
        validate_job_metadata_update(new, old, GATES, suspended=False, was_suspended=False)
    )
    assert bool(found) == is_refused
    other = job({names.QUEUE_NAME: "other"})
    assert list(
        validate_job_metadata_update(new, other, GATES, suspended=False, was_suspended=False)
    )
