"""A Job's status may not contradict itself."""

from typing import Any

import pytest

from multiqueue.embedded.server.builtin.job_status import validate_job_status
from tests.unit.embedded.server.kind_builders import texts

START, END = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def conditions(*names: str) -> list[dict[str, str]]:
    return [{"type": name, "status": "True"} for name in names]


def complete(**more: Any) -> dict[str, Any]:
    done = conditions("SuccessCriteriaMet", "Complete")
    return {"startTime": START, "completionTime": END, "conditions": done, **more}


def check(status: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    new, before = {"spec": {}, "status": status}, {"spec": {}, "status": old or {}}
    return [text.split(": ", 1)[0] for text in texts(validate_job_status(new, before))]


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"startTime": START, "active": 2, "ready": 2},
        complete(succeeded=2),
        {"startTime": START, "failed": 1, "conditions": conditions("FailureTarget", "Failed")},
    ],
    ids=["new", "running", "complete", "failed"],
)
def test_a_sensible_status_is_accepted(status: dict) -> None:
    assert check(status) == []


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"failed": -1}, "status.failed"),
        ({"active": 1, "ready": 2}, "status.ready"),
        (complete(conditions=conditions("Complete")), "status.conditions"),
        (complete(completionTime=None), "status.completionTime"),
        (complete(startTime=None), "status.startTime"),
        (complete(startTime=END, completionTime=START), "status.completionTime"),
        (complete(active=1), "status.active"),
        (complete(terminating=1), "status.terminating"),
        ({"startTime": START, "conditions": conditions("Failed")}, "status.conditions"),
        ({"startTime": START, "completionTime": END}, "status.completionTime"),
    ],
    ids=[
        "negative",
        "more ready than active",
        "complete without its criteria",
        "complete without an end",
        "complete without a start",
        "ends before it starts",
        "complete but active",
        "complete but terminating",
        "failed without its target",
        "an end without completion",
    ],
)
def test_a_contradiction_is_refused(status: dict, field: str) -> None:
    assert check(status) == [field]


def test_complete_and_failed_exclude_each_other() -> None:
    both = conditions("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed")
    assert set(check(complete(conditions=both))) == {"status.conditions"}


def test_what_was_wrong_before_is_not_held_against_an_update() -> None:
    old = complete(conditions=conditions("Complete"))
    assert check({**old, "succeeded": 1}, old) == []
