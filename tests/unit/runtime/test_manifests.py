"""The manifests that install a manager: complete, and no more rights than it uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.config import Configuration, load_configuration
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.setup import build_registry
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import (
    NODES,
    POD_TEMPLATES,
    PODS,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
)
from multiqueue.runtime.preconditions import list_informers
from multiqueue.serving.server import SHUTDOWN_SECONDS
from multiqueue.visibility.setup import SECRET_NAME as VISIBILITY_SECRET
from multiqueue.webhooks.registration import MUTATING_NAME, VALIDATING_NAME
from multiqueue.workers.connections.capabilities import CONFIG_MAP as CAPABILITIES

CONFIG = Path(__file__).parents[3] / "config"


def load(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((CONFIG / name).read_text()) if document]


def find(name: str, kind: str) -> dict[str, Any]:
    return next(document for document in load(name) if document["kind"] == kind)


def find_named(name: str, wanted: str) -> dict[str, Any]:
    return next(document for document in load(name) if document["metadata"]["name"] == wanted)


def grants(role: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def test_the_manager_may_watch_everything_that_it_watches() -> None:
    config = Configuration()
    client = KubeClient(Credentials.static("http://127.0.0.1:1"))
    informers = list_informers(build_informers(client, config, build_registry(config)))
    allowed = {
        *grants(find("rbac/manager_role.yaml", "ClusterRole")),
        *grants(find_named("rbac/namespaced_roles.yaml", "kueue-manager-secrets-role")),
    }
    watched = [informer.resource for informer in informers]
    # Informers of its own, where the cluster has such a check.
    watched += [PROVISIONING_REQUEST_CONFIGS, PROVISIONING_REQUESTS, POD_TEMPLATES]
    # And where it has a Topology.
    watched += [NODES, PODS]
    wanted = {
        (resource.group, resource.plural, verb)
        for resource in watched
        for verb in ("list", "watch")
    }
    assert wanted - allowed == set()


def test_secrets_and_leases_are_for_its_own_namespace_only() -> None:
    granted = {resource for _, resource, _ in grants(find("rbac/manager_role.yaml", "ClusterRole"))}
    assert not granted & {"secrets", "leases", "*"}


def test_nodes_are_only_read_and_neither_pods_nor_jobs_made() -> None:
    """Both are deleted: pods of lost nodes, and jobs whose retention is over, if so configured."""
    granted = set(grants(find("rbac/manager_role.yaml", "ClusterRole")))
    verbs = {
        resource: {verb for _, granted_resource, verb in granted if granted_resource == resource}
        for resource in ("nodes", "pods", "pods/status", "jobs")
    }
    assert verbs == {
        "nodes": {"list", "watch"},
        "pods": {"delete", "list", "patch", "watch"},
        "pods/status": {"patch"},
        "jobs": {"delete", "get", "list", "patch", "watch"},
    }


@pytest.mark.parametrize(
    "path",
    [*(CONFIG / "rbac").glob("*_roles.yaml"), *CONFIG.glob("*/*role.yaml")],
    ids=lambda path: path.name,
)
def test_no_rule_grants_everything(path: Path) -> None:
    roles = [d for d in yaml.safe_load_all(path.read_text()) if d["kind"].endswith("Role")]
    assert roles
    for rule in (rule for role in roles for rule in role.get("rules", ())):
        for words in rule.values():
            assert not any("*" in word for word in words)


@pytest.mark.parametrize(
    "path",
    [*(CONFIG / "rbac").glob("*_role*.yaml"), *CONFIG.glob("*/role.yaml")],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_nobody_may_make_webhook_configurations(path: Path) -> None:
    """Who may could have all writes of a cluster sent to a server of his own."""
    roles = [d for d in yaml.safe_load_all(path.read_text()) if d["kind"].endswith("Role")]
    for rule in (rule for role in roles for rule in role.get("rules", ())):
        if any(name.endswith("webhookconfigurations") for name in rule.get("resources", ())):
            assert rule["resourceNames"]
            assert set(rule["verbs"]) == {"get", "patch"}


def test_the_webhook_configurations_that_it_may_change_are_installed() -> None:
    installed = {each["metadata"]["name"] for each in load("webhook/configurations.yaml")}
    assert installed == {MUTATING_NAME, VALIDATING_NAME}
    rules = find("rbac/manager_role.yaml", "ClusterRole")["rules"]
    named = [r for r in rules if r["apiGroups"] == ["admissionregistration.k8s.io"]]
    assert {name for rule in named for name in rule["resourceNames"]} == installed


@pytest.mark.parametrize(
    ("policy", "workload"),
    [
        ("manager/network_policy.yaml", "manager/manager.yaml"),
        ("worker-guard/network_policy.yaml", "worker-guard/guard.yaml"),
    ],
)
def test_a_network_policy_opens_the_ports_that_are_served(policy: str, workload: str) -> None:
    """All but health, where only the kubelet of the same node asks."""
    spec = find(policy, "NetworkPolicy")["spec"]
    template = find(workload, "Deployment")["spec"]["template"]
    assert spec["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert spec["policyTypes"] == ["Ingress"]
    (container,) = template["spec"]["containers"]
    served = {port["name"] for port in container["ports"]}
    opened = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
    assert opened == served - {"health"}


def test_metrics_are_for_labelled_namespaces_only() -> None:
    rules = find("manager/network_policy.yaml", "NetworkPolicy")["spec"]["ingress"]
    (metrics,) = (rule for rule in rules if rule["ports"][0]["port"] == "metrics")
    assert metrics["from"] == [
        {"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}},
    ]


def test_the_configuration_is_valid_and_matches_the_deployment() -> None:
    config = load_configuration((CONFIG / "manager/controller_manager_config.yaml").read_text())
    deployment = find("manager/manager.yaml", "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["webhook-server"] == config.webhook.port
    assert ports["visibility"] == config.visibility_server.bind_port
    assert f":{ports['metrics']}" == config.metrics.bind_address
    assert f":{ports['health']}" == config.health.health_probe_bind_address


def test_the_lease_and_the_certificate_that_may_be_written_are_those_of_the_configuration() -> None:
    rules = [rule for role in load("rbac/namespaced_roles.yaml") for rule in role["rules"]]
    named = {name for rule in rules for name in rule.get("resourceNames", ())}
    config = Configuration()
    assert named == {
        config.leader_election.resource_name,
        config.internal_cert_management.webhook_secret_name,
        VISIBILITY_SECRET,
        CAPABILITIES,
    }


@pytest.mark.parametrize("name", ["webhook/service.yaml", "manager/metrics_service.yaml"])
def test_services_find_the_manager(name: str) -> None:
    selector = find(name, "Service")["spec"]["selector"]
    template = find("manager/manager.yaml", "Deployment")["spec"]["template"]
    assert selector.items() <= template["metadata"]["labels"].items()


def test_what_cannot_be_changed_later_is_as_upstream_has_it() -> None:
    """So that these manifests can be applied over upstream's."""
    deployment = find("manager/manager.yaml", "Deployment")
    assert deployment["metadata"]["name"] == "kueue-controller-manager"
    assert deployment["spec"]["selector"] == {
        "matchLabels": {"control-plane": "controller-manager"}
    }
    bound = {
        binding["metadata"]["name"]: binding["roleRef"]["name"]
        for binding in load("rbac/bindings.yaml")
        if "roleRef" in binding
    }
    assert bound == {
        "kueue-manager-rolebinding": "kueue-manager-role",
        "kueue-manager-secrets-rolebinding": "kueue-manager-secrets-role",
        "kueue-manager-workers-rolebinding": "kueue-manager-workers-role",
        "kueue-manager-clusterprofiles-rolebinding": "kueue-manager-clusterprofiles-role",
        "kueue-leader-election-rolebinding": "kueue-leader-election-role",
        "kueue-metrics-auth-rolebinding": "kueue-metrics-auth-role",
    }


def test_every_definition_is_installed() -> None:
    (entry,) = load("crd/kustomization.yaml")
    assert sorted(entry["resources"]) == sorted(p.name for p in (CONFIG / "crd").glob("*_*.yaml"))


def test_two_replicas_survive_a_drain_of_a_node() -> None:
    deployment = find("manager/manager.yaml", "Deployment")["spec"]
    budget = find("manager/disruption_budget.yaml", "PodDisruptionBudget")["spec"]
    assert deployment["replicas"] == 2
    assert budget["minAvailable"] == 1
    assert budget["selector"] == deployment["selector"]
    config = load_configuration((CONFIG / "manager/controller_manager_config.yaml").read_text())
    assert config.leader_election.leader_elect


def test_reviews_are_answered_until_nobody_is_led_here() -> None:
    pod = find("manager/manager.yaml", "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 0 < pause < pod["terminationGracePeriodSeconds"] - SHUTDOWN_SECONDS
