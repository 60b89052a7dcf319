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

CONFIG = Path(__file__).parents[3] / "config"


def load(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((CONFIG / name).read_text()) if document]


def find(name: str, kind: str) -> dict[str, Any]:
    return next(document for document in load(name) if document["kind"] == kind)


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
        *grants(find("rbac/role.yaml", "ClusterRole")),
        *grants(find("rbac/role.yaml", "Role")),
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
    granted = {resource for _, resource, _ in grants(find("rbac/role.yaml", "ClusterRole"))}
    assert not granted & {"secrets", "leases", "*"}


def test_nodes_are_only_read_and_neither_pods_nor_jobs_made() -> None:
    """Both are deleted: pods of lost nodes, and jobs whose retention is over, if so configured."""
    granted = set(grants(find("rbac/role.yaml", "ClusterRole")))
    verbs = {
        resource: {verb for _, granted_resource, verb in granted if granted_resource == resource}
        for resource in ("nodes", "pods", "pods/status", "jobs")
    }
    assert verbs == {
        "nodes": {"get", "list", "watch"},
        "pods": {"delete", "get", "list", "patch", "watch"},
        "pods/status": {"get", "patch"},
        "jobs": {"delete", "get", "list", "patch", "watch"},
    }


@pytest.mark.parametrize("name", ["rbac/role.yaml", "rbac/worker/role.yaml"])
def test_no_rule_grants_everything(name: str) -> None:
    roles = [document for document in load(name) if document["kind"].endswith("Role")]
    assert all("*" not in grant for role in roles for grant in grants(role))


def test_the_configuration_is_valid_and_matches_the_deployment() -> None:
    config = load_configuration((CONFIG / "manager/controller_manager_config.yaml").read_text())
    deployment = find("manager/manager.yaml", "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["webhook-server"] == config.webhook.port
    assert f":{ports['metrics']}" == config.metrics.bind_address
    assert f":{ports['health']}" == config.health.health_probe_bind_address


def test_the_lease_and_the_certificate_that_may_be_written_are_those_of_the_configuration() -> None:
    rules = find("rbac/role.yaml", "Role")["rules"]
    named = {name for rule in rules for name in rule.get("resourceNames", ())}
    config = Configuration()
    assert named == {
        config.leader_election.resource_name,
        config.internal_cert_management.webhook_secret_name,
    }


def test_the_service_of_the_webhooks_finds_the_manager() -> None:
    selector = find("webhook/service.yaml", "Service")["spec"]["selector"]
    template = find("manager/manager.yaml", "Deployment")["spec"]["template"]
    assert selector.items() <= template["metadata"]["labels"].items()


def test_everything_is_installed_at_once() -> None:
    (entry,) = load("kustomization.yaml")
    crds = {f"crd/{path.name}" for path in (CONFIG / "crd").glob("*.yaml")}
    assert crds <= set(entry["resources"])
    assert {"rbac", "manager", "webhook/service.yaml"} <= set(entry["resources"])
