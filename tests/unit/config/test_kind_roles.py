"""The roles for people: the labels that upstream's have, which other tools select them by."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
RBAC = ROOT / "config" / "rbac"
OURS, KUBERNETES = "rbac.kueue.x-k8s.io", "rbac.authorization.k8s.io"

ADMIN, USER = f"{OURS}/batch-admin", f"{OURS}/batch-user"
TO_ADMIN = f"{KUBERNETES}/aggregate-to-admin"
TO_ALL = {TO_ADMIN, f"{KUBERNETES}/aggregate-to-edit", f"{KUBERNETES}/aggregate-to-view"}

JOBS = ["job", "jobset", "leaderworkerset", "mpijob", "jaxjob", "paddlejob", "pytorchjob"]
JOBS += ["tfjob", "xgboostjob", "rayjob", "sparkapplication", "trainjob"]
WANTED = {
    **{f"{kind}-editor": {ADMIN, USER} for kind in [*JOBS, "raycluster", "rayservice"]},
    **{f"{kind}-viewer": {ADMIN, USER, *TO_ALL} for kind in [*JOBS, "localqueue", "workload"]},
    **{f"{kind}-viewer": {ADMIN, *TO_ALL} for kind in ("raycluster", "rayservice")},
    **{
        f"{kind}-editor": {ADMIN}
        for kind in ("clusterqueue", "cohort", "localqueue", "resourceflavor", "topology")
    },
    "workload-editor": {ADMIN},
    **{
        f"{kind}-viewer": {ADMIN, TO_ADMIN}
        for kind in ("clusterqueue", "cohort", "resourceflavor", "topology")
    },
    "pending-workloads-lq-viewer": {ADMIN, USER, *TO_ALL},
    "pending-workloads-cq-viewer": {ADMIN, *TO_ALL},
    # Ours: who dispatches.
    "dispatchprofile-editor": {ADMIN},
    "dispatchprofile-viewer": {ADMIN, TO_ADMIN},
    "disruptionpolicy-editor": {ADMIN},
    "disruptionpolicy-viewer": {ADMIN, TO_ADMIN},
    "quotaplan-editor": {ADMIN},
    "quotaplan-viewer": {ADMIN, TO_ADMIN},
    "jobkind-editor": {ADMIN},
    "jobkind-viewer": {ADMIN, USER, TO_ADMIN},
    "usagereport-viewer": {ADMIN, USER, *TO_ALL},
    # Ours: pods, logs and events of jobs on workers, why they are there, and why jobs wait.
    **{
        f"remote-{what}-viewer": {ADMIN, USER, *TO_ALL}
        for what in ("pods", "log", "events", "dispatch", "explanation")
    },
    "dispatch-review-creator": {ADMIN, USER, *TO_ALL},
    # Ours: where jobs stand; what is at the cluster scope is for administrators of the queues.
    **{
        f"fleet-{what}-viewer": {ADMIN, USER, *TO_ALL}
        for what in ("standings", "stories", "lines", "feeds")
    },
    "fleet-whatif-creator": {ADMIN, USER, *TO_ALL},
    "fleet-totals-viewer": {ADMIN, USER},
    "fleet-calibrations-viewer": {ADMIN, USER},
    **{f"fleet-{what}-viewer": {ADMIN} for what in ("quotas", "workers", "shares", "changes")},
    # All namespaces are in it: nothing for the administrators of one.
    "dispatch-decisions-viewer": {ADMIN},
}


def load(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((RBAC / name).read_text()))


ROLES = load("kind_roles.yaml")


def test_each_role_has_the_labels_of_upstream() -> None:
    got = {}
    for role in ROLES:
        labels = dict(role["metadata"]["labels"])
        name = labels.pop(f"{OURS}/role")
        assert role["metadata"]["name"] == f"kueue-{name}-role"
        assert set(labels.values()) == {"true"}
        got[name] = set(labels)
    assert got == WANTED
    assert len(ROLES) == len(WANTED) == 69


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role["metadata"]["name"])
def test_editors_write_objects_and_nobody_writes_a_status(role: dict[str, Any]) -> None:
    first, *others = role["rules"]
    read = ["get", "list", "watch"]
    if "-creator-" in role["metadata"]["name"]:
        assert first["verbs"] == ["create"]
    elif "-editor-" in role["metadata"]["name"]:
        assert first["verbs"] == sorted([*read, "create", "delete", "patch", "update"])
    else:
        assert first["verbs"] == read
    for rule in others:
        assert rule["resources"] == [f"{first['resources'][0]}/status"]
        assert rule["verbs"] == ["get"]


@pytest.mark.parametrize("who", ["admin", "user"])
def test_the_batch_roles_are_sums_of_the_roles_with_their_label(who: str) -> None:
    role = next(
        r for r in load("batch_roles.yaml") if r["metadata"]["name"].endswith(f"{who}-role")
    )
    selectors = role["aggregationRule"]["clusterRoleSelectors"]
    assert selectors == [{"matchLabels": {f"{OURS}/batch-{who}": "true"}}]
    assert "rules" not in role  # they are the aggregation controller's


def test_the_file_is_what_the_generator_makes() -> None:
    spec = importlib.util.spec_from_file_location(
        "generate_kind_roles", ROOT / "tools" / "generate_kind_roles.py"
    )
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.render() == (RBAC / "kind_roles.yaml").read_text(), "run make roles"


@pytest.mark.parametrize(
    "path",
    [
        "config/rbac/job_kinds_role.yaml",
        "config/worker-role/job_kinds.yaml",
        "config/worker-guard/job_kinds.yaml",
    ],
)
def test_the_roles_of_the_job_kinds_are_those_of_the_table(path: str) -> None:
    spec = importlib.util.spec_from_file_location(
        "generate_job_roles", ROOT / "tools" / "generate_job_roles.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / path).read_text() == module.build_file(path), "run `make roles`"
