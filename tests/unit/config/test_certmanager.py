"""The variant with certificates of cert-manager: mounted where each server reads its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.config import load_configuration
from multiqueue.runtime import metrics_endpoint
from multiqueue.visibility import setup as visibility

CONFIG = Path(__file__).parents[3] / "config"
OURS = CONFIG / "certmanager"


def load(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((OURS / name).read_text()))


def test_the_configuration_differs_in_who_makes_certificates_only() -> None:
    (ours,) = load("controller_manager_config.yaml")
    default = yaml.safe_load((CONFIG / "manager" / "controller_manager_config.yaml").read_text())
    assert ours == {**default, "internalCertManagement": {"enable": False}}


@pytest.mark.parametrize(
    ("volume", "secret", "service"),
    [
        ("webhook-cert", "kueue-webhook-server-cert", "kueue-webhook-service"),
        ("visibility-cert", visibility.SECRET_NAME, visibility.SERVICE_NAME),
        ("metrics-cert", "kueue-metrics-server-cert", metrics_endpoint.SERVICE),
    ],
)
def test_each_server_finds_a_certificate_for_its_service(
    volume: str, secret: str, service: str
) -> None:
    config = load_configuration((OURS / "controller_manager_config.yaml").read_text())
    folders = {
        "webhook-cert": config.webhook.cert_dir,
        "visibility-cert": str(visibility.CERTIFICATE_FOLDER),
        "metrics-cert": str(metrics_endpoint.CERTIFICATES),
    }
    (patch,) = load("manager_patch.yaml")
    pod = patch["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts == folders
    secrets = {each["name"]: each["secret"]["secretName"] for each in pod["volumes"]}
    assert secrets[volume] == secret
    specs = [certificate["spec"] for certificate in load("certificates.yaml")]
    names = {spec["secretName"]: spec["dnsNames"] for spec in specs}
    assert f"{service}.kueue-system.svc" in names[secret]


def test_prometheus_trusts_the_authority_of_the_metrics() -> None:
    patch = yaml.safe_load((CONFIG / "prometheus-tls" / "monitor_tls_patch.yaml").read_text())
    (endpoint,) = patch["spec"]["endpoints"]
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == "kueue-metrics-server-cert"
    assert endpoint["tlsConfig"]["serverName"] == f"{metrics_endpoint.SERVICE}.kueue-system.svc"
