"""What a manifest changes of the quotas, as rows and as the changes of a what-if."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.views.quota_changes import list_changes, list_effect_rows


def make_owner(kind: str = "ClusterQueue", **flavors: dict[str, dict[str, Any]]) -> dict[str, Any]:
    made = [
        {"name": name, "resources": [{"name": each, **quota} for each, quota in quotas.items()]}
        for name, quotas in flavors.items()
    ]
    spec = {"resourceGroups": [{"coveredResources": [], "flavors": made}]}
    return {"kind": kind, "metadata": {"name": "research"}, "spec": spec}


def test_only_what_differs_in_amount_is_a_change() -> None:
    stored = make_owner(a100={"gpu": {"nominalQuota": "4", "borrowingLimit": 2}}, old={"cpu": {}})
    wanted = make_owner(a100={"gpu": {"nominalQuota": 4, "lendingLimit": "1"}})
    assert [each.row() for each in list_changes(stored, wanted)] == [
        ["research", "a100", "gpu", "borrowingLimit", "2", "-"],
        ["research", "a100", "gpu", "lendingLimit", "-", "1"],
    ]
    assert [each.request() for each in list_changes(stored, wanted)] == [
        "borrowing-limit cq/research gpu@a100=-",
        "lending-limit cq/research gpu@a100=1",
    ]
    memory = make_owner(a100={"memory": {"nominalQuota": "1Gi"}})
    assert list_changes(memory, make_owner(a100={"memory": {"nominalQuota": "1024Mi"}})) == []


def test_all_of_a_new_cohort_is_a_change() -> None:
    (change,) = list_changes(None, make_owner("Cohort", a100={"gpu": {"nominalQuota": "8"}}))
    assert change.row() == ["Cohort research", "a100", "gpu", "nominalQuota", "-", "8"]
    assert change.request() == "quota cohort/research gpu@a100=8"
    assert not change.tryable, "a what-if finds no such Cohort"


def test_a_what_if_is_asked_only_about_quotas_that_stay() -> None:
    stored = make_owner(a100={"gpu": {"nominalQuota": 4}, "cpu": {"nominalQuota": 1}})
    wanted = make_owner(
        a100={"gpu": {"nominalQuota": 5, "borrowingLimit": 1}, "memory": {"nominalQuota": "1Gi"}},
        h100={"gpu": {"nominalQuota": 2}},
    )
    changes = list_changes(stored, wanted)
    assert [each.request() for each in changes if each.tryable] == [
        "borrowing-limit cq/research gpu@a100=1",
        "quota cq/research gpu@a100=5",
    ]
    left_out = {(each.flavor, each.resource) for each in changes if not each.tryable}
    assert left_out == {("a100", "cpu"), ("a100", "memory"), ("h100", "gpu")}


def test_a_value_that_is_no_quantity_names_its_field() -> None:
    wanted = make_owner(a100={"gpu": {"nominalQuota": "four"}})
    with pytest.raises(UsageProblem) as refused:
        list_changes(None, wanted)
    assert str(refused.value).startswith(
        'ClusterQueue "research": nominalQuota of gpu in flavor a100: '
    )


def test_who_is_stopped_is_told_by_whom() -> None:
    common = {"workload": "a/w", "job": "Job/w", "clusterQueue": "q", "why": "no room"}
    before = {**common, "fate": "keeps", "position": None, "stoppedBy": None}
    stop = {"workload": "b/v", "message": "stopped for b/v"}
    after = {**common, "fate": "stops", "position": 2, "stoppedBy": stop}
    found = [
        {"effect": "stopped", "before": before, "after": after},
        {"effect": "starts now", "before": None, "after": {**before, "fate": "starts"}},
    ]
    assert list_effect_rows(found) == [
        ["a/Job/w", "q", "stopped", "keeps", "stops #2", "stopped for b/v"],
        ["a/Job/w", "q", "starts now", "-", "starts", "no room"],
    ]
