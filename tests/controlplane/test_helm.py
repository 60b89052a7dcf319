"""The helm chart (config/helm): the same installation as config/, which leaves jobs alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from multiqueue.api.config import load_configuration
from multiqueue.api.config.types import Dashboard
from tests.controlplane import binaries
from tests.controlplane.conftest import StartControlPlane, require
from tests.controlplane.installed import CONFIG, NAMESPACE, leader
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.test_install import MANIFESTS, assert_admitted

CHART = str(CONFIG / "helm")
RELEASE = "kueue"
OUR_IMAGE = "--set=controllerManager.manager.image.repository=example.com/multiqueue"
CONFIGURATION = "managerConfig.controllerManagerConfigYaml"
CONFIG_MAP = ("ConfigMap", "kueue-manager-config")
DEPLOYMENT = ("Deployment", "kueue-controller-manager")
OF_THE_PROCESS = {"health", "metrics", "webhook", "featureGates"}
"""Sections that `leader` sets, because it runs outside of the cluster."""

Objects = dict[tuple[str, str], dict[str, Any]]


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    """Run helm; answers what it prints."""
    require("helm")
    environment = {"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}
    command = [str(binaries.get("helm")), *arguments, f"--namespace={NAMESPACE}"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"HOME": "/tmp"} | environment
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


def upstream_chart() -> Path:
    return binaries.module_folder("kueue", "sigs.k8s.io/kueue") / "charts" / "kueue"


def upstream_values() -> Path:
    """The values of upstream's chart, which lists all that it knows."""
    return upstream_chart() / "values.yaml"


def render(*arguments: str) -> Objects:
    return read_objects(helm("template", RELEASE, CHART, *arguments))


def build(base: str) -> Objects:
    """What kubectl makes of a base of config/."""
    require("kubectl")
    command = [str(binaries.get("kubectl")), "kustomize", str(CONFIG / base)]
    return read_objects(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def read_objects(text: str) -> Objects:
    """By kind and name, without what a chart cannot or need not have."""
    found: Objects = {}
    for obj in filter(None, yaml.safe_load_all(text)):
        kind, name = obj["kind"], obj["metadata"]["name"]
        if kind == "Namespace":
            continue  # helm makes it: --create-namespace
        if kind == "CustomResourceDefinition":
            annotations = obj["metadata"].get("annotations") or {}
            annotations.pop("helm.sh/resource-policy", None)
            obj["metadata"]["annotations"] = annotations
        if kind == "ConfigMap":
            name = CONFIG_MAP[1]  # kustomize adds a hash
        found[kind, name] = obj
    return found


def test_helm_finds_nothing_to_mend() -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", CHART)


@pytest.mark.parametrize(
    ("base", "values"),
    [
        ("default", []),
        ("certmanager", ["--set=enableCertManager=true"]),
    ],
)
def test_it_installs_what_config_does(base: str, values: list[str]) -> None:
    charted, kustomized = render(*values), build(base)
    for key in charted.keys() - kustomized.keys():
        assert key == ("Secret", "kueue-webhook-server-cert")  # the manager makes it otherwise
        del charted[key]
    assert charted.keys() == kustomized.keys()
    differing = {key for key in charted if charted[key] != kustomized[key]}
    services = {key for key in charted if key[0] == "Service"}
    assert differing <= {CONFIG_MAP, DEPLOYMENT, *services}
    for key in services:
        charted[key]["spec"].pop("type", None)
        assert charted[key] == kustomized[key]
    file = "controller_manager_config.yaml"
    ours, theirs = (
        yaml.safe_load(objects[CONFIG_MAP]["data"][file]) for objects in (charted, kustomized)
    )
    assert ours == theirs | {"namespace": NAMESPACE}
    pods = [objects[DEPLOYMENT]["spec"]["template"]["spec"] for objects in (charted, kustomized)]
    (container, wanted) = (pod.pop("containers")[0] for pod in pods)
    assert container.pop("args") == [*wanted.pop("args"), "--log-level=info"]
    assert container.pop("imagePullPolicy") == "IfNotPresent"
    assert container == wanted
    names = [{volume["name"] for volume in pod.pop("volumes")} for pod in pods]
    assert names[0] == names[1]
    assert pods[0] == pods[1]


def test_monitoring_is_that_of_config() -> None:
    charted = render("--set=enablePrometheus=true,enableCertManager=true")
    for key, wanted in build("prometheus-tls").items():
        assert charted[key] == wanted


def test_the_dashboard_is_that_of_config() -> None:
    """Switched on in the configuration, with its host name in the certificate."""
    url = "https://queue.example.com:9443"
    plain = render("--set=enableCertManager=true")
    charted = render(
        "--set=enableCertManager=true,dashboard.enabled=true", f"--set=dashboard.url={url}"
    )
    kustomized = build("dashboard")
    assert charted.keys() - plain.keys() == kustomized.keys()
    service = charted["Service", "multiqueue-dashboard"]
    assert service["spec"].pop("type") == "ClusterIP"
    assert {key: charted[key] for key in kustomized} == kustomized
    text = charted[CONFIG_MAP]["data"]["controller_manager_config.yaml"]
    assert load_configuration(text).dashboard == Dashboard(bind_address=":8444", url=url)
    names = charted["Certificate", "kueue-visibility-cert"]["spec"]["dnsNames"]
    assert names[-1] == "queue.example.com"
    wanted = [f"multiqueue-dashboard.{NAMESPACE}.svc{end}" for end in ("", ".cluster.local")]
    assert names[-3:-1] == wanted
    taken = 'dashboard: {bindAddress: ":1"}'
    given = f"--set-string={CONFIGURATION}=kind: Configuration\n{taken}"
    with pytest.raises(AssertionError, match="leads to port 8444"):
        render("--set=dashboard.enabled=true", given)


def test_the_guard_of_a_worker_is_that_of_config() -> None:
    """With the manager's image and place; a release without it has none of its objects."""
    tolerated = '--set-json=controllerManager.tolerations=[{"key":"system"}]'
    version = yaml.safe_load((CONFIG / "helm" / "Chart.yaml").read_text())["appVersion"]
    plain = render()
    charted = render("--set=workerGuard.enabled=true", OUR_IMAGE, tolerated)
    kustomized = build("worker-guard")
    assert charted.keys() - plain.keys() == kustomized.keys()
    pod = kustomized["Deployment", "multiqueue-worker-guard"]["spec"]["template"]["spec"]
    pod["tolerations"] = [{"key": "system"}]
    pod["containers"][0] |= {
        "image": f"example.com/multiqueue:{version}",
        "imagePullPolicy": "IfNotPresent",
    }
    assert {key: charted[key] for key in kustomized} == kustomized


def test_each_value_of_upstream_is_understood() -> None:
    charted = render(f"--values={upstream_values()}", OUR_IMAGE)
    deployment = charted[DEPLOYMENT]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 1
    assert container["image"] == "example.com/multiqueue:release-0.19"
    assert container["livenessProbe"]["initialDelaySeconds"] == 15
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "512Mi"}
    assert ("PodDisruptionBudget", DEPLOYMENT[1]) not in charted


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("fullnameOverride=x", "objects are always named kueue-"),
        (f"{CONFIGURATION}=kind: [", "it is no Configuration"),
        ("mutatingWebhook.reinvocationPolicy=IfNeeded", "the manager registers its webhooks"),
        ("controllerManager.replicas=two", "got string, want integer"),
        ("controlerManager.replicas=2", "controlerManager"),
        ("workerGuard.replicas=2", "replicas"),
        ("controllerManager.manager.image.repository=a/kueue/kueue", "the image of upstream Kueue"),
        (
            f"{CONFIGURATION}=kind: Configuration\ninternalCertManagement:\n  enable: false",
            "nobody makes certificates: set enableCertManager",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(value: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        render(f"--set={value}")


@pytest.mark.timeout(300)
def test_upgrade_rollback_and_uninstall_leave_jobs_alone(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane("plane")
    file = plane.kubeconfig
    values = f"--values={upstream_values()}", OUR_IMAGE
    helm("install", RELEASE, CHART, "--create-namespace", *values, kubeconfig=file)
    plane.wait_until_served()
    settings = installed_settings(plane)
    with leader(plane, tmp_path / "first", **settings):
        plane.kubectl("apply", "-f", str(MANIFESTS / "v1beta2.yaml"))
        assert_admitted(plane, "team-v1beta2")
        before = pods_of(plane)
    serve_in_the_cluster(plane)
    more = "--set=controllerManager.replicas=3"
    helm("upgrade", RELEASE, CHART, *values, more, kubeconfig=file)
    assert replicas(plane) == 3
    helm("rollback", RELEASE, "1", kubeconfig=file)
    assert replicas(plane) == 1
    with leader(plane, tmp_path / "second", **settings):
        plane.kubectl("apply", "-f", str(MANIFESTS / "v1beta1.yaml"))
        assert_admitted(plane, "team-v1beta1")
    helm("uninstall", RELEASE, kubeconfig=file)
    assert before
    assert pods_of(plane) == before
    found = plane.kubectl("get", "crd", "workloads.kueue.x-k8s.io", "--output=name")
    assert "workloads.kueue.x-k8s.io" in found


@pytest.mark.timeout(300)
def test_it_replaces_upstream_s_release(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane("plane")
    file = plane.kubeconfig
    helm("install", RELEASE, str(upstream_chart()), "--create-namespace", kubeconfig=file)
    plane.wait_until_served()
    helm("upgrade", RELEASE, CHART, OUR_IMAGE, "--reset-values", kubeconfig=file)
    assert replicas(plane) == 2
    with leader(plane, tmp_path / "manager", **installed_settings(plane)):
        plane.kubectl("apply", "-f", str(MANIFESTS / "v1beta2.yaml"))
        assert_admitted(plane, "team-v1beta2")
    serve_in_the_cluster(plane)
    helm("rollback", RELEASE, "1", kubeconfig=file)
    assert replicas(plane) == 1


def serve_in_the_cluster(plane: RealControlPlane) -> None:
    """Have definitions and webhooks name the Service, as a manager inside of the cluster does.

    `leader` runs outside of it and puts its address there; helm would add the Service to that.
    """
    for kind in ("crd", *(f"{each}webhookconfiguration" for each in ("mutating", "validating"))):
        for obj in json.loads(plane.kubectl("get", kind, "--output=json"))["items"]:
            conversion = (obj.get("spec") or {}).get("conversion") or {}
            clients = [conversion.get("webhook") or {}, *(obj.get("webhooks") or ())]
            for client in (each["clientConfig"] for each in clients if "clientConfig" in each):
                path = urlsplit(client.pop("url", "//h/convert")).path
                service = {"name": "kueue-webhook-service", "namespace": NAMESPACE, "port": 443}
                client.setdefault("service", service | {"path": path})
            (plane.folder / "served").write_text(json.dumps(obj))
            plane.kubectl("replace", "-f", str(plane.folder / "served"))


def installed_settings(plane: RealControlPlane) -> dict[str, Any]:
    where = f"--namespace={NAMESPACE}"
    stored = json.loads(plane.kubectl("get", "configmap", CONFIG_MAP[1], where, "--output=json"))
    sections = yaml.safe_load(stored["data"]["controller_manager_config.yaml"])
    return {name: value for name, value in sections.items() if name not in OF_THE_PROCESS}


def pods_of(plane: RealControlPlane) -> str:
    """The pods of the job, by uid."""
    uids = "--output=jsonpath={.items[*].metadata.uid}"
    return plane.kubectl("get", "pods", "--namespace=team-v1beta2", uids)


def replicas(plane: RealControlPlane) -> int:
    where = f"--namespace={NAMESPACE}", "--output=jsonpath={.spec.replicas}"
    return int(plane.kubectl("get", "deployment", DEPLOYMENT[1], *where))
