"""config/certmanager on top of config/default: who issues, who mounts, who trusts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.config import Configuration
from multiqueue.webhooks.conversion_registration import DEFINITIONS
from multiqueue.webhooks.registration import MUTATING_NAME, VALIDATING_NAME
from multiqueue.webhooks.setup import serving_hosts

CONFIG = Path(__file__).parents[2] / "config"
KUBECTL = shutil.which("kubectl")
INJECTED = {"cert-manager.io/inject-ca-from": "kueue-system/kueue-serving-cert"}


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Any]:
    """What ``kubectl apply -k`` sends."""
    if KUBECTL is None:
        assert not os.environ.get("CI"), "kubectl is required on CI"
        pytest.skip("no kubectl found; install it to run this test")
    built = subprocess.run(
        [KUBECTL, "kustomize", str(CONFIG / "certmanager")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    documents = yaml.safe_load_all(built.stdout)
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


pytestmark = pytest.mark.kubectl


def test_the_certificates_are_signed_by_an_authority_that_stays(
    objects: dict[tuple[str, str], Any],
) -> None:
    authority = objects["Certificate", "kueue-ca"]["spec"]
    assert authority["isCA"] is True
    assert (
        objects["Issuer", "kueue-ca-issuer"]["spec"]["ca"]["secretName"] == authority["secretName"]
    )
    serving = objects["Certificate", "kueue-serving-cert"]["spec"]
    assert serving["issuerRef"]["name"] == "kueue-ca-issuer"
    assert set(serving["dnsNames"]) <= set(serving_hosts(Configuration(), ""))


def test_the_authority_is_injected_wherever_the_api_server_calls(
    objects: dict[tuple[str, str], Any],
) -> None:
    names = [("CustomResourceDefinition", name) for name in DEFINITIONS]
    names.append(("MutatingWebhookConfiguration", MUTATING_NAME))
    names.append(("ValidatingWebhookConfiguration", VALIDATING_NAME))
    assert all(objects[name]["metadata"]["annotations"] == INJECTED for name in names)
