"""What a manifest changes of the quotas, as rows and as the changes of a what-if."""

from __future__ import annotations

from typing import Any

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
