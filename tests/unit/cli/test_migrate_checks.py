"""The check before a migration, its backup and its comparison: pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from multiqueue.api.config import Gate
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.main import main
from multiqueue.cli.migration.backup import FORMAT, read_backup, write_backup
from multiqueue.cli.migration.comparison import compare_workloads
from multiqueue.cli.migration.differences import ALWAYS, ROWS
from multiqueue.cli.migration.findings import Weight
from multiqueue.cli.migration.guard import build_guard
from multiqueue.cli.migration.installation import Installation, replicas_of
from multiqueue.cli.migration.preflight import check_installation
from multiqueue.cli.migration.translation import default_in, newest_known, translate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"
SPARK = ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
Object = dict[str, Any]


def make_definition(kind: str = "ClusterQueue", *stored: str) -> Object:
    spec = {"group": "kueue.x-k8s.io", "names": {"kind": kind}}
    status = {"storedVersions": list(stored or ("v1beta2",))}
    name = f"{kind.lower()}s.kueue.x-k8s.io"
    crd = "CustomResourceDefinition"
    return {"kind": crd, "metadata": {"name": name}, "spec": spec, "status": status}


def make_deployment(*, image: str = "r/kueue/kueue:v0.19.0", flags: str = "") -> Object:
    container = {"name": "manager", "image": image, "args": ["--config=/c.yaml", *flags.split()]}
    return {
        "kind": "Deployment",
        "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"control-plane": "controller-manager"}},
            "template": {"spec": {"containers": [container]}},
        },
    }


def make_config(text: str) -> Object:
    metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    return {
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"controller_manager_config.yaml": text},
    }


def make_workload(
    name: str,
    *,
    owner: tuple[str, str] = ("batch/v1", "Job"),
    quota: str = "",
    priority: int = 0,
    finished: bool = False,
    **metadata: Any,
) -> Object:
    """A Workload that waits; ``quota`` is since when it has quota."""
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": quota}
        for type_ in ("QuotaReserved", "Admitted")
        if quota
    ]
    if finished:
        conditions.append({"type": "Finished", "status": "True"})
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "ownerReferences": [{"apiVersion": owner[0], "kind": owner[1]}],
            **metadata,
        },
        "spec": {"priority": priority},
        "status": {"conditions": conditions},
    }


def installed(*objects: Object, deployment: Object | None = None) -> Installation:
    return Installation(objects=(deployment or make_deployment(), *objects), is_live=True)


def blocking(found: Installation) -> list[tuple[str, str]]:
    return [(each.check, each.about) for each in check_installation(found).blocking]


def warned(found: Installation) -> list[tuple[str, str]]:
    findings = check_installation(found).findings
    return [(e.check, e.about) for e in findings if e.weight is Weight.WARNING]


def test_an_ordinary_installation_can_be_taken_over() -> None:
    found = installed(make_definition(), make_workload("a", quota="t"), make_workload("b"))
    preflight = check_installation(found)
    assert preflight.blocking == ()
    assert preflight.facts["workloads"] == {"running": 1, "waiting": 1, "finished": 0}
    assert preflight.facts["version"] == "0.19"


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            installed(make_definition("ClusterQueue", "v1alpha1", "v1beta1")),
            ("versions", "clusterqueues.kueue.x-k8s.io"),
            id="objects stored in a version that is not served",
        ),
        pytest.param(
            installed({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "QuotaPlan"}),
            ("versions", "QuotaPlan"),
            id="objects of an unknown kind of Kueue",
        ),
        pytest.param(
            installed(make_workload("a", owner=("example.com/v1", "Train"))),
            ("kinds", "Train (example.com/v1)"),
            id="jobs of an unknown kind",
        ),
        pytest.param(
            installed(make_workload("a", owner=("jobset.x-k8s.io/v1alpha2", "JobSet"))),
            ("kinds", "JobSet (jobset.x-k8s.io/v1alpha2)"),
            id="jobs of a kind that the configuration does not name",
        ),
        pytest.param(
            installed(make_workload("a", owner=SPARK)),
            ("kinds", "SparkApplication (sparkoperator.k8s.io/v1beta2)"),
            id="jobs of a kind whose gate is off",
        ),
        pytest.param(
            installed(deployment=make_deployment(flags="--feature-gates=New=true")),
            ("configuration", "featureGates.New"),
            id="an unknown gate",
        ),
        pytest.param(
            installed(make_config("metrics: {colour: red}")),
            ("configuration", "metrics.colour"),
            id="an unknown field of the configuration",
        ),
        pytest.param(
            installed(deployment=make_deployment(image="r/kueue/kueue:v0.99.0")),
            ("version", "r/kueue/kueue:v0.99.0"),
            id="an upstream that is newer than this program knows",
        ),
        pytest.param(
            Installation(objects=(), is_live=True),
            ("manager", "Deployment kueue-controller-manager"),
            id="no Deployment",
        ),
        pytest.param(
            Installation(objects=(), is_live=False, values={"fullnameOverride": "queue"}),
            ("values", "fullnameOverride"),
            id="a value that our chart refuses",
        ),
    ],
)  # fmt: skip
def test_it_blocks(found: Installation, want: tuple[str, str]) -> None:
    assert blocking(found) == [want]


def test_a_selector_that_cannot_be_changed_blocks() -> None:
    deployment = make_deployment()
    deployment["metadata"]["annotations"] = {"meta.helm.sh/release-name": "kueue"}
    assert blocking(installed(deployment=deployment)) == [
        ("manager", "Deployment kueue-system/kueue-controller-manager")
    ]


def test_manifests_install_into_one_namespace_only() -> None:
    deployment = make_deployment()
    deployment["metadata"]["namespace"] = "queues"
    assert blocking(installed(deployment=deployment)) == [
        ("manager", "Deployment queues/kueue-controller-manager")
    ]


def test_places_in_a_topology_need_its_gate() -> None:
    placed = make_workload("a", quota="t")
    placed["status"]["admission"] = {"podSetAssignments": [{"topologyAssignment": {}}]}
    off = make_config("featureGates: {TopologyAwareScheduling: false}")
    assert blocking(installed(placed)) == []
    assert ("gates", "featureGates.TopologyAwareScheduling") in blocking(installed(placed, off))


def test_it_warns_of_objects_that_wait_for_a_finalizer() -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "q", "deletionTimestamp": "t", "finalizers": ["example.com/mine"]},
    }
    assert warned(installed(queue)).count(("finalizers", "ClusterQueue q")) == 2


def test_a_check_that_is_not_active_is_named() -> None:
    spec = {"controllerName": "example.com/budget"}
    check = {"kind": "AdmissionCheck", "metadata": {"name": "budget"}, "spec": spec}
    assert ("admissionChecks", "AdmissionCheck budget") in warned(installed(check))


def test_jobs_on_workers_are_counted() -> None:
    sent = make_workload("a", quota="t")
    sent["status"]["clusterName"] = "worker-1"
    assert ("dispatched", "MultiKueue") in warned(installed(sent))


def test_a_stopped_deployment_tells_its_replicas_of_before() -> None:
    deployment = make_deployment()
    deployment["spec"]["replicas"] = 0
    assert replicas_of(deployment) == 0
    deployment["metadata"]["annotations"] = {"multiqueue.dev/replicas-before-migration": "3"}
    assert replicas_of(deployment) == 3


@pytest.mark.parametrize(
    ("gate", "version", "want"),
    [
        (Gate.TAS_REPLACE_NODE_DUE_TO_NOT_READY_OVER_FIXED_TIME, (0, 18), True),
        (Gate.TAS_REPLACE_NODE_DUE_TO_NOT_READY_OVER_FIXED_TIME, (0, 19), False),
        (Gate.PRIORITIZE_PREEMPTOR_WORKLOADS, (0, 19), None),
    ],
)
def test_defaults_of_gates_follow_upstream_s_history(
    gate: Gate, version: tuple[int, int], want: bool | None
) -> None:
    assert default_in(gate, version) is want
    assert newest_known() >= (0, 20)


def test_the_behaviour_of_upstream_s_version_is_kept() -> None:
    flags = "--feature-gates=PartialAdmission=false"
    deployment = make_deployment(image="r/kueue/kueue:v0.18.1", flags=flags)
    gates = translate(installed(deployment=deployment)).wire["featureGates"]
    assert gates["TASReplaceNodeDueToNotReadyOverFixedTime"] is True
    assert gates["PartialAdmission"] is False


def test_an_old_configuration_is_written_in_the_new_version() -> None:
    old = make_config(
        "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"
        "integrations: {frameworks: [pod]}"
    )
    wire = translate(installed(old)).wire
    assert wire["apiVersion"] == "config.kueue.x-k8s.io/v1beta2"
    assert wire["integrations"]["frameworks"] == ["pod"]


def test_every_row_of_the_page_belongs_to_a_feature() -> None:
    rows = {int(row) for row in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)}
    assert {*ALWAYS, *(row for listed in ROWS.values() for row in listed)} == rows


def test_only_the_rows_of_what_is_in_use_are_named() -> None:
    found = installed(make_workload("a"))
    differences = [e.about for e in check_installation(found).findings if e.check == "differences"]
    assert differences == ["every installation", "waitForPodsReady", "visibility API"]


def test_what_starts_pods_is_refused_while_no_manager_runs() -> None:
    policy, _ = build_guard()
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    refused = {name for rule in rules for name in rule["resources"]}
    assert {"jobs", "pods", "jobsets", "rayjobs"} <= refused
    assert not {"cronjobs", "deployments", "statefulsets"} & refused  # their pods and jobs are


# -------------------------------------------------------------------- backup
def test_a_backup_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = Installation(objects=(make_workload("a"),), is_live=True, identity="u", holder="h")
    write_backup(tmp_path / "b", found, namespace="kueue-system", now=NOW)
    got = read_backup(tmp_path / "b")
    assert (got.installation, got.namespace) == (found, "kueue-system")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_backup_never_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(UsageProblem, match="a backup never replaces a file"):
        write_backup(tmp_path / "b", installed(), namespace="n", now=NOW)
    assert (tmp_path / "b").read_text() == "mine"


@pytest.mark.parametrize("objects", [None, {}, [1], [{"kind": "Workload"}]])
def test_a_sealed_backup_without_objects_is_refused(tmp_path: Path, objects: Any) -> None:
    """Its checksum is right, so another program wrote it."""
    body = {"cluster": "u", "objects": objects}
    checksum = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    (tmp_path / "b").write_bytes(orjson.dumps({"format": FORMAT, "sha256": checksum, **body}))
    with pytest.raises(UsageProblem, match="objects: must be a list of objects"):
        read_backup(tmp_path / "b")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[:-20], "was cut off or changed"),
        (lambda text: text.replace(b"team", b"mine"), "its checksum is not that of its content"),
        (lambda _: b"{}", "is no backup of this command"),
    ],
)
def test_a_broken_backup_is_refused(tmp_path: Path, damage: Any, reason: str) -> None:
    path = tmp_path / "b"
    write_backup(path, installed(make_workload("a")), namespace="n", now=NOW)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageProblem, match=reason):
        read_backup(path)


# ---------------------------------------------------------------- comparison
BEFORE = (
    make_workload("runs", quota="10:00"),
    make_workload("first", priority=2),
    make_workload("second", priority=1),
)


def compared(*after: Object) -> Any:
    return compare_workloads(installed(*BEFORE), installed(*after))


def test_nothing_changed() -> None:
    outcome = compared(*BEFORE)
    assert (outcome.still_running, outcome.waiting, outcome.admitted) == (1, 2, 0)
    assert outcome.is_good


@pytest.mark.parametrize(
    ("after", "changed", "lost", "is_order_kept"),
    [
        pytest.param(
            [make_workload("runs", quota="10:05"), *BEFORE[1:]],
            ("Workload team/runs",), (), True, id="one was stopped and admitted again",
        ),
        pytest.param(
            [make_workload("runs"), *BEFORE[1:]],
            ("Workload team/runs",), (), True, id="one was stopped",
        ),
        pytest.param(
            BEFORE[:2], (), ("Workload team/second",), True, id="a waiting one is gone",
        ),
        pytest.param(
            [*BEFORE[:2], make_workload("second", priority=3)],
            (), (), False, id="a waiting one overtook another",
        ),
    ],
)  # fmt: skip
def test_it_finds(
    after: Sequence[Object], changed: tuple[str], lost: tuple[str], *, is_order_kept: bool
) -> None:
    outcome = compared(*after)
    got = (outcome.changed, outcome.lost, outcome.is_order_kept, outcome.is_good)
    assert got == (changed, lost, is_order_kept, False)


def test_jobs_that_ended_or_were_admitted_are_no_change() -> None:
    ended = make_workload("runs", quota="10:00", finished=True)
    admitted = make_workload("first", quota="10:05", priority=2)
    outcome = compared(ended, admitted, BEFORE[2])
    assert (outcome.ended, outcome.admitted, outcome.is_good) == (1, 1, True)


# ------------------------------------------------------------------- command
def test_values_of_upstream_s_chart_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "values.yaml").write_text(
        "controllerManager: {featureGates: [{name: New, enabled: true}]}"
    )
    assert main(["migrate", str(tmp_path / "values.yaml")]) == 1
    assert "featureGates.New: unknown feature gate" in capsys.readouterr().out


def test_a_folder_of_manifests_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", str(PAGE.parents[1] / "config" / "samples")]) == 0
    assert "differences: MultiKueue" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--apply"], "--apply needs --backup FILE and --image NAME:TAG"),
        (
            ["--apply", "--backup=b", "--image=host:5000/mq"],
            "needs --backup FILE and --image NAME:",
        ),
        (["--apply", "--check"], "--check changes nothing"),
        (["--rollback", "b", "--apply"], "--rollback goes alone"),
        (["--dry-run"], "--dry-run goes with --apply or --rollback"),
        ([".", "--backup", "b"], "SOURCE can only be checked"),
    ],
)
def test_contradicting_options_are_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", *arguments]) == 2
    assert reason in capsys.readouterr().err
