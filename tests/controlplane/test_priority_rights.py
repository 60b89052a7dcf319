"""config/samples-priority: which namespaces may use which class, and who may not be stopped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from multiqueue.api import names
from tests.builders.jobs import make_job
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.installed import CONFIG, install
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until

TEAM, OTHER = "team-a", "team-b"
ALLOWED = "multiqueue.dev/priority-classes"
MANAGER = "system:serviceaccount:kueue-system:kueue-controller-manager"
AS_MANAGER = (
    f"--as={MANAGER}",
    "--as-group=system:masters",
    "--as-group=system:serviceaccounts:kueue-system",
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    require(*NEEDED)
    with RealControlPlane(tmp_path_factory.mktemp("rights")) as started:
        install(started)
        for namespace in (TEAM, OTHER):
            started.kubectl("create", "namespace", namespace)
        started.kubectl("annotate", "namespace", TEAM, f"{ALLOWED}=low, normal")
        started.kubectl("apply", "-f", str(CONFIG / "samples-priority"))
        until(lambda: refusal(started, job("probe", "high")) != "", "the policy counts")
        yield started


def job(name: str, priority: str = "", namespace: str = TEAM) -> dict[str, Any]:
    made = make_job(name, labels={names.PRIORITY_CLASS: priority} if priority else None)
    made["metadata"]["namespace"] = namespace
    return made


def workload(name: str, priority: str) -> dict[str, Any]:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "podSets": [
                {
                    "name": "main",
                    "count": 1,
                    "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                }
            ],
            "priority": 5,
            "priorityClassRef": {
                "group": names.GROUP,
                "kind": "WorkloadPriorityClass",
                "name": priority,
            },
        },
    }


def refusal(plane: RealControlPlane, obj: dict[str, Any], *more: str) -> str:
    """Why an object is refused; empty: it is taken. Nothing is stored."""
    try:
        plane.kubectl("create", "--dry-run=server", "-f", "-", *more, stdin=json.dumps(obj))
    except subprocess.CalledProcessError as error:
        return str(error.stderr)
    return ""


@pytest.mark.parametrize("priority", ["", "low", "normal"])
def test_a_namespace_may_use_what_its_annotation_lists(
    plane: RealControlPlane, priority: str
) -> None:
    assert refusal(plane, job("allowed", priority)) == ""


def test_others_are_refused_with_what_to_do(plane: RealControlPlane) -> None:
    why = refusal(plane, job("urgent", "high"))
    assert f'namespace "{TEAM}" may not use WorkloadPriorityClass "high"' in why
    assert "annotation multiqueue.dev/priority-classes" in why
    assert f'namespace "{OTHER}" may not use' in refusal(plane, job("any", "low", OTHER))
    assert refusal(plane, job("none", namespace=OTHER)) == ""


def test_workloads_are_checked_but_for_those_that_the_manager_makes(
    plane: RealControlPlane,
) -> None:
    assert "may not use WorkloadPriorityClass" in refusal(plane, workload("own", "high"))
    assert refusal(plane, workload("own", "low")) == ""
    assert refusal(plane, workload("made", "high"), *AS_MANAGER) == ""


def test_what_exists_can_be_changed_but_gets_no_other_class(plane: RealControlPlane) -> None:
    plane.kubectl("create", "-f", "-", stdin=json.dumps(job("stays", "normal")))
    plane.kubectl("annotate", "namespace", TEAM, f"{ALLOWED}=low", "--overwrite")
    try:
        plane.kubectl("annotate", "job/stays", f"-n={TEAM}", "note=changed")
        label = f"{names.PRIORITY_CLASS}=high"
        with pytest.raises(subprocess.CalledProcessError) as error:
            plane.kubectl("label", "job/stays", f"-n={TEAM}", label, "--overwrite")
        assert "may not use WorkloadPriorityClass" in error.value.stderr
    finally:
        plane.kubectl("annotate", "namespace", TEAM, f"{ALLOWED}=low, normal", "--overwrite")


def test_jobs_that_nobody_may_stop_need_a_right_of_their_namespace(plane: RealControlPlane) -> None:
    kept = job("kept")
    kept["metadata"]["annotations"] = {names.NON_PREEMPTIBLE: "true"}
    why = refusal(plane, kept)
    assert (
        f'namespace "{TEAM}" may not have jobs with the annotation {names.NON_PREEMPTIBLE}' in why
    )
    plane.kubectl("annotate", "namespace", TEAM, f"{names.NON_PREEMPTIBLE}=true")
    until(lambda: refusal(plane, kept) == "", "the namespace may")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(kept))
    plane.kubectl("annotate", "namespace", TEAM, f"{names.NON_PREEMPTIBLE}-")
    until(
        lambda: (
            "may not have jobs"
            in refusal(plane, {**kept, "metadata": {**kept["metadata"], "name": "b"}})
        ),
        "no more",
    )
    plane.kubectl("annotate", "job/kept", f"-n={TEAM}", "note=changed")
