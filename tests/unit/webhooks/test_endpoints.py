from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from multiqueue.api.config import Configuration, Integrations
from multiqueue.api.job_kinds import JOB_KINDS, SUPPORTED_FRAMEWORKS
from multiqueue.api.names import APPROVED_BY
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.setup import build_registry
from multiqueue.webhooks.endpoints import (
    MUTATE_QUOTA_PLANS,
    Endpoints,
    Handler,
    job_path,
    mutate_path,
    validate_path,
)
from multiqueue.webhooks.review import ReviewRequest, ReviewVerdict
from tests.unit.webhooks.lookups import Queues

ALL_KINDS = Configuration(
    integrations=Integrations(frameworks=tuple(sorted(SUPPORTED_FRAMEWORKS))),
    feature_gates={row.gate: True for row in JOB_KINDS if row.gate and row.folder},
)
MUTATE_JOB, VALIDATE_JOB = "/mutate-batch-v1-job", "/validate-batch-v1-job"
ENDPOINTS = Endpoints(
    Queues(local=frozenset({"n/q"})), ALL_KINDS, build_registry(ALL_KINDS)
).table()
JOB = {
    "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
    "spec": {"template": {}},
}


def ask(
    path: str,
    kind: str = "Job",
    operation: str = "CREATE",
    endpoints: Mapping[str, Handler] = ENDPOINTS,
    **fields: Any,
) -> ReviewVerdict:
    request = {
        "uid": "u",
        "group": "batch" if kind == "Job" else "kueue.x-k8s.io",
        "kind": kind,
        "subresource": "",
        "operation": operation,
        "namespace": "n",
        "name": "j",
        "obj": {},
        "old": {},
        **fields,
    }
    return endpoints[path](ReviewRequest(**request))


def test_the_paths_are_those_of_upstream() -> None:
    assert mutate_path("ClusterQueue") == "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue"
    assert validate_path("Workload") == "/validate-kueue-x-k8s-io-v1beta2-workload"
    assert {MUTATE_JOB, VALIDATE_JOB} <= set(ENDPOINTS)


def test_a_new_job_is_suspended_and_its_implied_namespace_not_written() -> None:
    got = ask(MUTATE_JOB, obj=JOB).changed
    assert got == {**JOB, "spec": {"template": {}, "suspend": True}}


def test_only_new_jobs_are_defaulted() -> None:
    assert ask(MUTATE_JOB, operation="UPDATE", obj=JOB, old=JOB).changed is None
    assert ask(MUTATE_JOB, obj=JOB, subresource="status").changed is None


def test_jobs_are_checked_on_create_and_update() -> None:
    bad = {"metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "A b"}}, "spec": {}}
    assert ask(VALIDATE_JOB, obj=bad).errors
    assert not ask(VALIDATE_JOB, obj=JOB).errors
    moved = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}, "spec": {"suspend": False}}
    running = {**JOB, "spec": {"suspend": False}}
    assert ask(VALIDATE_JOB, operation="UPDATE", obj=moved, old=running).errors


@pytest.mark.parametrize("has_default", [False, True])
def test_a_suspended_job_may_leave_its_queue_unless_there_is_a_default(has_default: bool) -> None:
    """J-62."""
    local = frozenset({"n/q", "n/default"} if has_default else {"n/q"})
    table = Endpoints(Queues(local=local), ALL_KINDS, build_registry(ALL_KINDS)).table()
    spec = {"template": {}, "suspend": True}
    left = {"metadata": {"name": "j"}, "spec": spec}
    got = ask(
        VALIDATE_JOB, operation="UPDATE", obj=left, old={**JOB, "spec": spec}, endpoints=table
    )
    assert [error.detail for error in got.errors] == (
        ["queue-name must not be empty in namespace with default queue"] if has_default else []
    )


def test_nothing_keeps_a_deleted_object_from_leaving() -> None:
    bad = {
        "metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kueue.x-k8s.io/queue-name": "A"},
        },
        "spec": {"fairSharing": {"weight": "-1"}},
    }
    for path, kind in ((VALIDATE_JOB, "Job"), (validate_path("ClusterQueue"), "ClusterQueue")):
        assert not ask(path, kind, operation="UPDATE", obj=bad, old=bad).errors
    assert ask(mutate_path("ClusterQueue"), "ClusterQueue", obj=bad).changed is None
    assert not ask(
        validate_path("ClusterQueue"), "ClusterQueue", operation="DELETE", old=bad
    ).errors


def test_our_kinds_are_defaulted_and_checked() -> None:
    obj = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
    }
    changed = ask(mutate_path("ClusterQueue"), "ClusterQueue", obj=obj).changed
    assert changed is not None
    assert changed["spec"]["queueingStrategy"] == "BestEffortFIFO"
    bad = {**obj, "spec": {"fairSharing": {"weight": "-1"}}}
    assert ask(validate_path("ClusterQueue"), "ClusterQueue", obj=bad).errors
    assert ask(
        validate_path("ClusterQueue"), "ClusterQueue", operation="UPDATE", obj=bad, old=obj
    ).errors


def test_objects_of_v1beta1_are_answered_in_v1beta1() -> None:
    obj = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {"cohort": "c", "flavorFungibility": {"whenCanBorrow": "Borrow"}},
    }
    changed = ask(mutate_path("ClusterQueue"), "ClusterQueue", obj=obj).changed
    assert changed is not None
    assert changed["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert changed["spec"]["cohort"] == "c"
    assert changed["spec"]["flavorFungibility"]["whenCanBorrow"] == "MayStopSearch"


def test_warnings_come_with_the_validation() -> None:
    obj = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "c"},
        "spec": {"controllerName": "kueue.x-k8s.io/multikueue"},
    }
    assert ask(validate_path("AdmissionCheck"), "AdmissionCheck", obj=obj).warnings


@pytest.mark.parametrize("path", sorted(ENDPOINTS))
@pytest.mark.parametrize(
    "obj", [{}, {"metadata": None, "spec": None}, {"metadata": {}, "spec": "x"}]
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_no_endpoint_trips_over_odd_objects(path: str, obj: dict, operation: str) -> None:
    kinds = {path_of(kind): kind for kind in KINDS for path_of in (mutate_path, validate_path)}
    groups = {
        job_path(verb, GroupVersionKind(row.group, row.version, row.kind)): row
        for row in JOB_KINDS
        for verb in ("mutate", "validate")
    }
    kinds[MUTATE_QUOTA_PLANS] = "QuotaPlan"
    row = groups.get(path)
    more = {"group": row.group} if row is not None else {}
    kind = row.kind if row is not None else kinds.get(path, "Job")
    ask(path, kind, operation=operation, obj=obj, old=obj, **more)


KINDS = (
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "LocalQueue",
    "MultiKueueCluster",
    "MultiKueueConfig",
    "ResourceFlavor",
    "Topology",
    "Workload",
)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({}, {"approved": "a1"}, "alice"),
        ({"approved": "a1"}, {"approved": "b2"}, "alice"),
        ({"approved": "a1"}, {"approved": "a1", "every": "1h"}, "bob"),
        ({"approved": "a1"}, {}, None),
    ],
    ids=["who agrees", "who agrees to another", "who agreed", "nobody"],
)
@pytest.mark.parametrize("forged", [None, "mallory"])
def test_who_agreed_to_a_change_of_quotas_comes_from_the_request(
    old: dict, new: dict, want: str | None, forged: str | None
) -> None:
    notes = {APPROVED_BY: forged} if forged else {}
    obj = {"metadata": {"name": "p", "annotations": notes}, "spec": new}
    before = {"metadata": {"name": "p", "annotations": {APPROVED_BY: "bob"}}, "spec": old}
    verdict = ask(
        MUTATE_QUOTA_PLANS, "QuotaPlan", operation="UPDATE", obj=obj, old=before, user="alice"
    )
    after = obj if verdict.changed is None else verdict.changed
    assert after["metadata"]["annotations"].get(APPROVED_BY) == want
