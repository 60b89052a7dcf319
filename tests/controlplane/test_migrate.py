"""`multiqueue migrate`: upstream Kueue's jobs taken over by this program, and back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import binaries
from tests.controlplane.conftest import StartControlPlane, require
from tests.controlplane.deployed import deployed_manager
from tests.controlplane.installed import CONFIG, NAMESPACE
from tests.controlplane.nodes import add_nodes, as_list, make_node, run_for
from tests.controlplane.plane import HOST, RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.test_helm import helm, upstream_chart

PAGE = CONFIG.parent / "docs" / "migrate.md"
TEAM, DEPLOYMENT = "team", "kueue-controller-manager"
CONTAINER = "/spec/template/spec/containers/0"
RUNNING = int(os.environ.get("MIGRATE_RUNNING", "20"))
WAITING = int(os.environ.get("MIGRATE_WAITING", "50"))
ONLY_E2E = pytest.mark.e2e
"""The other way of installing takes the same steps."""
Facts = dict[str, Any]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("installed_by", ["helm", pytest.param("kubectl", marks=ONLY_E2E)])
def test_jobs_are_taken_over_and_given_back(
    installed_by: str,
    start_control_plane: StartControlPlane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command of docs/migrate.md is run, in order."""
    plane = start_upstream(installed_by, start_control_plane, tmp_path, monkeypatch)
    check, steps, take_over, back, *_ = read_commands(installed_by)
    with deployed_manager(plane, tmp_path) as deployed:
        wait_for_leader(plane)
        submit_jobs(plane)
        before = observe(plane)

        run(plane, tmp_path, check, steps)
        assert not (tmp_path / "kueue-backup.json").exists()
        first, *others = take_over.splitlines()
        run(plane, tmp_path, first)
        assert_new_jobs_are_refused(plane)
        told = run(plane, tmp_path, *others)
        assert f"running: {RUNNING} of {RUNNING} as before, 0 ended" in told
        assert f"waiting: {WAITING}, 0 of them got quota since, order kept" in told
        assert deployed.programs == ["upstream", "ours"]
        assert observe(plane) == before
        assert_next_in_line(plane, "running-0", f"waiting-{WAITING - 1}")
        assert_webhooks_answer(plane)

        between = observe(plane)
        told = run(plane, tmp_path, back)
        assert f"running: {RUNNING - 1} of {RUNNING} as before, 1 ended" in told
        assert f"waiting: {WAITING}, 1 of them got quota since, order kept" in told
        assert deployed.programs == ["upstream", "ours", "upstream"]
        assert observe(plane) == between
        assert len(who_gets_the_quota_of(plane, "running-1")) == 1
        assert_webhooks_answer(plane)
        again = run(plane, tmp_path, "multiqueue migrate --rollback kueue-backup.json")
        assert "restore:" not in again
        assert deployed.programs == ["upstream", "ours", "upstream"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("installed_by", [pytest.param("helm", marks=ONLY_E2E), "kubectl"])
def test_jobs_are_given_back_without_the_backup(
    installed_by: str,
    start_control_plane: StartControlPlane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last commands of docs/migrate.md are run, after those of the take-over."""
    plane = start_upstream(installed_by, start_control_plane, tmp_path, monkeypatch)
    _, _, take_over, _, *alone = read_commands(installed_by)
    with deployed_manager(plane, tmp_path) as deployed:
        wait_for_leader(plane)
        submit_jobs(plane, running=4, waiting=6)
        run(plane, tmp_path, take_over)
        (tmp_path / "kueue-backup.json").unlink()
        before = observe(plane)
        ours = set(hook_names(plane))

        run(plane, tmp_path, *alone)
        until(lambda: deployed.programs == ["upstream", "ours", "upstream"], "upstream's manager")
        wait_for_leader(plane)
        until(lambda: webhooks_answer(plane), "upstream's webhooks")
        assert set(hook_names(plane)) != ours, "multiqueue's webhooks are still registered"
        assert observe(plane) == before
        assert len(who_gets_the_quota_of(plane, "running-1")) == 1
        found = plane.kubectl("get", "apiservices", "--output=name")
        assert not re.search(r"\.(fleet|remote)\.multiqueue\.dev", found)


@pytest.mark.timeout(300)
def test_a_take_over_is_refused_before_anything_changes(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane("plane")
    install_as_released(plane, "kubectl")
    (tmp_path / "config").symlink_to(CONFIG)
    apply = "multiqueue migrate --apply --backup backup.json --image example.com/multiqueue:1"
    run(plane, tmp_path, "multiqueue migrate --backup good.json")
    (tmp_path / "cut.json").write_bytes((tmp_path / "good.json").read_bytes()[:-9])
    gates = [{"op": "add", "path": f"{CONTAINER}/args/-", "value": "--feature-gates=New=true"}]
    patch = ("--type=json", f"--patch={json.dumps(gates)}")
    plane.kubectl("patch", "deployment", DEPLOYMENT, f"--namespace={NAMESPACE}", *patch)
    version = state_of(plane)

    told = run(plane, tmp_path, apply, fails=1)
    assert "nothing was changed" in told
    assert "featureGates.New: unknown feature gate" in told
    assert not (tmp_path / "backup.json").exists()
    told = run(plane, tmp_path, "multiqueue migrate --rollback cut.json", fails=2)
    assert "it was cut off or changed" in told
    assert state_of(plane) == version


def start_upstream(
    installed_by: str,
    start_control_plane: StartControlPlane,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> RealControlPlane:
    """A control plane with nodes, and upstream Kueue; the page's files are in the folder."""
    require("helm", "kueue", "kwok", "kube-scheduler")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", HOST)
    plane = start_control_plane("plane", extra_arguments=["--enable-aggregator-routing=true"])
    add_nodes(plane, [make_node(f"node-{i}", "a100", gpus=1) for i in range(1 + RUNNING // 60)])
    install_as_released(plane, installed_by)
    (folder / "config").symlink_to(CONFIG)
    return plane


def install_as_released(plane: RealControlPlane, installed_by: str) -> None:
    """Install upstream Kueue as its documentation says."""
    if installed_by == "helm":
        chart = str(upstream_chart()), "--create-namespace"
        helm("install", "kueue", *chart, kubeconfig=plane.kubeconfig)
    else:
        plane.kubectl("apply", "--server-side", "-k", str(upstream_base()))
    plane.wait_until_served()


def upstream_base() -> Path:
    """What upstream's manifests.yaml is made from."""
    return upstream_chart().parents[1] / "config" / "default"


def state_of(plane: RealControlPlane) -> str:
    """The version of the Deployment as it was last changed by a user."""
    where = f"--namespace={NAMESPACE}", "--output=jsonpath={.metadata.generation}"
    return plane.kubectl("get", "deployment", DEPLOYMENT, *where)


def read_commands(installed_by: str) -> list[str]:
    """The blocks of commands on the page; those of helm are replaced as the page says."""
    page = PAGE.read_text()
    *blocks, by_helm, by_kubectl = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    if installed_by == "helm":
        return [*blocks, by_helm]
    (start,) = re.findall(r"`(kubectl apply [^`]*)`", page)
    blocks = [re.sub(r"helm upgrade .*", start, block) for block in blocks]
    blocks = [re.sub(r"helm rollback .*", "", block) for block in blocks]
    return [*blocks, by_kubectl.replace("--filename MANIFESTS", f"--kustomize {upstream_base()}")]


def run(plane: RealControlPlane, folder: Path, *blocks: str, fails: int = 0) -> str:
    """Run commands as a user of a shell does, who stops at the first that fails."""
    programs = [Path(sys.executable), binaries.get("helm"), binaries.get("kubectl")]
    path = ":".join([*(str(program.parent) for program in programs), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)}
    environment.pop("KUBERNETES_SERVICE_HOST", None)
    done = subprocess.run(
        ["bash", "-ec", "\n".join(blocks)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == fails, f"{done.stdout}\n{done.stderr}"
    return done.stderr if fails else done.stdout


def submit_jobs(plane: RealControlPlane, running: int = RUNNING, waiting: int = WAITING) -> None:
    """Have some jobs run and others wait, those with higher numbers before the others."""
    jobs = [make_job(f"running-{i}", 0) for i in range(running)]
    objects = as_list([*queue_objects(running, waiting), *jobs])
    plane.kubectl("create", "-f", "-", stdin=json.dumps(objects))
    until(lambda: count_running(plane) == running, "running jobs")
    jobs = [make_job(f"waiting-{i}", i) for i in range(waiting)]
    plane.kubectl("create", "-f", "-", stdin=json.dumps(as_list(jobs)))
    until(lambda: pending(plane) == waiting, "waiting jobs")


def queue_objects(running: int, waiting: int) -> list[dict[str, Any]]:
    quota = {"name": "cpu", "nominalQuota": running}
    flavors = [{"name": "nodes", "resources": [quota]}]
    priorities = [
        kueue("WorkloadPriorityClass", f"p{i}") | {"value": i} for i in range(max(waiting, 1))
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
        kueue("ResourceFlavor", "nodes", spec={"tolerations": [{"operator": "Exists"}]}),
        *priorities,
        kueue(
            "ClusterQueue",
            "cluster",
            spec={
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            },
        ),
        kueue("LocalQueue", "batch", namespace=TEAM, spec={"clusterQueue": "cluster"}),
    ]


def kueue(kind: str, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **where}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, **fields}


def make_job(name: str, priority: int) -> dict[str, Any]:
    """A job of one pod, which never ends by itself; its author does not suspend it."""
    labels = {
        "kueue.x-k8s.io/queue-name": "batch",
        "kueue.x-k8s.io/priority-class": f"p{priority}",
    }
    requests = {"requests": {"cpu": "1"}}
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "registry.example.com/train", "resources": requests}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": TEAM, "labels": labels},
        "spec": {
            "template": {
                "metadata": {"annotations": run_for("24h")},
                "spec": pod,
            }
        },
    }


def observe(plane: RealControlPlane) -> Facts:
    """What must be the same: jobs, pods, Workloads and the accounts of the queue."""
    until(lambda: has_settled(plane), "settled accounts")
    pods = [
        (each["metadata"]["name"], each["metadata"]["uid"], each["status"]["startTime"])
        for each in get(plane, "pods")
    ]
    jobs = {
        each["metadata"]["name"]: (
            each["metadata"]["uid"],
            each["spec"]["suspend"],
            each["status"].get("startTime"),
        )
        for each in get(plane, "jobs")
    }
    workloads = {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["status"].get("admission"))
        for each in get(plane, "workloads")
    }
    return {"pods": sorted(pods), "jobs": jobs, "workloads": workloads, "queue": accounts(plane)}


def accounts(plane: RealControlPlane) -> Facts:
    status = json.loads(plane.kubectl("get", "clusterqueue", "cluster", "--output=json"))["status"]
    names = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
    usage = [
        (resource["name"], resource["total"])
        for name in ("flavorsReservation", "flavorsUsage")
        for flavor in status[name]
        for resource in flavor["resources"]
    ]
    return {**{name: status[name] for name in names}, "usage": usage}


def has_settled(plane: RealControlPlane) -> bool:
    """Whether the queue's status has been brought up to date."""
    open_workloads = [w for w in get(plane, "workloads") if not is_finished(w)]
    reserving = sum("admission" in w["status"] for w in open_workloads)
    now = accounts(plane)
    return (
        now["reservingWorkloads"] == now["admittedWorkloads"] == reserving
        and now["pendingWorkloads"] == len(open_workloads) - reserving
        and count_running(plane) == len(get(plane, "pods")) == reserving
    )


def is_finished(workload: dict[str, Any]) -> bool:
    conditions = workload["status"].get("conditions", ())
    return any((c["type"], c["status"]) == ("Finished", "True") for c in conditions)


def assert_next_in_line(plane: RealControlPlane, ends: str, begins: str) -> None:
    """If a job ends, the first waiting one gets its quota, and no other."""
    assert who_gets_the_quota_of(plane, ends) == {begins}


def who_gets_the_quota_of(plane: RealControlPlane, ends: str) -> set[str]:
    """End a job; answers which of the waiting ones runs then.

    Upstream gives quota that is freed soon after its start to any Workload that it has not tried
    since, so only the number is known there.
    """
    waited = waiting(plane)
    plane.kubectl("delete", "job", ends, f"--namespace={TEAM}")
    until(lambda: waiting(plane) != waited, "job that gets the quota")
    observe(plane)
    return waited - waiting(plane)


def waiting(plane: RealControlPlane) -> set[str]:
    return {job["metadata"]["name"] for job in get(plane, "jobs") if job["spec"]["suspend"]}


def assert_new_jobs_are_refused(plane: RealControlPlane) -> None:
    """While no manager runs, nothing may start without quota, although no webhook is asked."""
    none = "--type=merge", '--patch={"webhooks": []}'
    for kind in ("mutating", "validating"):
        configuration = f"{kind}webhookconfiguration/kueue-{kind}-webhook-configuration"
        plane.kubectl("patch", configuration, *none)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        plane.kubectl("create", "-f", "-", stdin=json.dumps(make_job("early", 0)))
    assert "Kueue is being replaced and no manager runs" in refused.value.stderr


def assert_webhooks_answer(plane: RealControlPlane) -> None:
    """Its webhook suspends a job that is not suspended; the reconcilers see nothing of this one."""
    assert is_suspended_at_once(plane)


def is_suspended_at_once(plane: RealControlPlane) -> bool:
    job = json.dumps(make_job("late", 0))
    made = plane.kubectl("create", "--dry-run=server", "-o=json", "-f", "-", stdin=job)
    return bool(json.loads(made)["spec"].get("suspend"))


def webhooks_answer(plane: RealControlPlane) -> bool:
    """Whether a webhook is asked already, and answers."""
    try:
        return is_suspended_at_once(plane)
    except subprocess.CalledProcessError:
        return False  # it is registered, and nobody answers yet


def hook_names(plane: RealControlPlane) -> list[str]:
    """The names of the registered webhooks for new objects."""
    configuration = "mutatingwebhookconfiguration/kueue-mutating-webhook-configuration"
    found = plane.kubectl("get", configuration, "--output=jsonpath={.webhooks[*].name}")
    return found.split()


def get(plane: RealControlPlane, kind: str) -> list[dict[str, Any]]:
    found = plane.kubectl("get", kind, f"--namespace={TEAM}", "--output=json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return items


def count_running(plane: RealControlPlane) -> int:
    return sum(job["status"].get("ready", 0) for job in get(plane, "jobs"))


def pending(plane: RealControlPlane) -> int:
    return int(accounts(plane)["pendingWorkloads"])


def wait_for_leader(plane: RealControlPlane) -> None:
    lease = "lease/c1f6bfd2.kueue.x-k8s.io", f"--namespace={NAMESPACE}"
    plane.kubectl("wait", "--for=create", *lease, "--timeout=90s")
    plane.kubectl("wait", "--for=jsonpath={.spec.holderIdentity}", *lease, "--timeout=90s")
