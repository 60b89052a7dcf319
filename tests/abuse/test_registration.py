"""What the API server is told of the webhooks: certificates, configurations, rights."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.config import load_configuration
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, QUEUE_NAME, WEBHOOK_PROBLEM
from multiqueue.kube import certificates
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import (
    JOBS,
    MUTATING_WEBHOOKS,
    PODS,
    SUBJECT_ACCESS_REVIEWS,
    VALIDATING_WEBHOOKS,
)
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from multiqueue.runtime.manifests import create_missing
from multiqueue.webhooks.registration import MUTATING_NAME, VALIDATING_NAME
from tests.abuse.fleet import BYSTANDER, Fleet
from tests.integration.waiting import is_true, until_one
from tests.least_privilege import MANAGER, rbac_objects

CONFIGURATIONS = ((MUTATING_WEBHOOKS, MUTATING_NAME), (VALIDATING_WEBHOOKS, VALIDATING_NAME))
ATTACKER = "training"


@contextlib.asynccontextmanager
async def configured(fleet: Fleet, **settings: Any) -> AsyncIterator[Path]:
    """Run the manager with these settings besides those of the fleet; answers its file."""
    path = fleet.folder / "manager-config.yaml"
    before = path.read_text()
    path.write_text(yaml.safe_dump(yaml.safe_load(before) | settings))
    try:
        await fleet.program.restart()
        yield path
    finally:
        path.write_text(before)
        await fleet.program.restart()
        await until_policy(fleet, "Fail")


async def until_policy(fleet: Fleet, policy: str) -> list[str]:
    """Wait until Jobs with a queue are guarded so; answers what the configurations say."""
    told = []
    for resource, name in CONFIGURATIONS:
        found = await until_one(
            fleet.manager, resource, name, lambda obj: policy_of_jobs(obj) == policy, seconds=60
        )
        told.append((found["metadata"].get("annotations") or {}).get(WEBHOOK_PROBLEM, ""))
    return told


def policy_of_jobs(configuration: dict[str, Any]) -> str:
    hooks = configuration.get("webhooks") or ()
    policies = [h["failurePolicy"] for h in hooks if h["name"] in {"mjob.kb.io", "vjob.kb.io"}]
    return str(policies[0]) if policies else ""


async def run_delegated_job(fleet: Fleet) -> None:
    """Run a Job whose author says what the webhook would: that a worker runs it."""
    name = fleet.unused("delegated")
    job = build_job(DemoJob(team=BYSTANDER, name=name, pods=1, gpus_each=1, run_seconds=0.2))
    job["spec"]["managedBy"] = MULTIKUEUE_CONTROLLER
    job["spec"]["suspend"] = True
    await fleet.manager.create(JOBS, job, namespace=BYSTANDER)
    try:
        await until_one(
            fleet.manager, JOBS, name, lambda obj: is_true(obj, "Complete"), namespace=BYSTANDER
        )
    finally:
        await fleet.manager.delete(JOBS, name, namespace=BYSTANDER, propagation="Background")


def serve(directory: Path, authority: certificates.KeyPair, host: str) -> None:
    """Put a certificate of this authority where the manager finds it, without the authority."""
    pair = certificates.issue_certificate(authority, host, [host], datetime.now(UTC))
    directory.mkdir(exist_ok=True)
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)


@pytest.mark.timeout(240)
async def test_certificates_that_nobody_trusts_fail_no_write(fleet: Fleet, tmp_path: Path) -> None:
    """Row 4: internalCertManagement is off, and nobody tells the API server who signed."""
    text = (fleet.folder / "manager-config.yaml").read_text()
    settings = yaml.safe_load(text)
    host = load_configuration(text).webhook.host or "127.0.0.1"
    authority = certificates.create_authority("somebody", datetime.now(UTC))
    serve(tmp_path / "certs", authority, host)
    webhook = {**settings.get("webhook", {}), "certDir": str(tmp_path / "certs")}
    off = {"webhook": webhook, "internalCertManagement": {"enable": False}}
    async with configured(fleet, **off) as path:
        for told in await until_policy(fleet, "Ignore"):
            assert f'would not trust the certificate of "{host}": ' in told
            assert "put the authority that signed tls.crt into ca.crt" in told
        await run_delegated_job(fleet)
        code, output = await fleet.cli("config", "check", str(path), "--cluster")
        assert code == 1
        assert 'error: MutatingWebhookConfiguration "kueue-mutating-webhook-conf' in output
        assert "the API server would not trust the certificate" in output
        assert "the API server cannot ask the webhooks" in fleet.program.read_log()
        # The right authority comes later: nobody has to restart anything.
        (tmp_path / "certs" / "ca.crt").write_bytes(authority.certificate)
        assert set(await until_policy(fleet, "Fail")) == {""}
        await fleet.run_job()
        code, output = await fleet.cli("config", "check", str(path), "--cluster")
        assert code == 0, output


async def test_the_manager_s_account_may_make_no_webhook_configuration(fleet: Fleet) -> None:
    """Row 14: who steals its token cannot have the cluster's writes sent elsewhere."""
    await create_missing(fleet.manager, rbac_objects())

    async def may(verb: str, resource: str, name: str = "") -> bool:
        wanted = {
            "group": "admissionregistration.k8s.io",
            "resource": resource,
            "verb": verb,
            "name": name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": MANAGER.name, "resourceAttributes": wanted},
        }
        answer = await fleet.manager.create(SUBJECT_ACCESS_REVIEWS, review)
        return bool(answer["status"]["allowed"])

    for resource, name in CONFIGURATIONS:
        assert await may("patch", resource.plural, name)
        assert not await may("patch", resource.plural, "somebody-elses")
        for verb in ("create", "update", "delete", "list"):
            assert not await may(verb, resource.plural)


async def test_a_pod_with_a_queue_label_is_told_that_it_is_not_queued(fleet: Fleet) -> None:
    name = fleet.unused("pod")
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": ATTACKER, "labels": {QUEUE_NAME: ATTACKER}},
        "spec": {"containers": [container]},
    }
    words = "Pods are not queued: this one runs at once, outside of every quota"
    file = fleet.folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(pod))
    code, output = await fleet.cli("submit", "-f", str(file))
    assert (code, words in output) == (1, True), output
    warnings: list[str] = []
    credentials = await Credentials.from_kubeconfig_file(fleet.kubeconfig)
    async with KubeClient(credentials, on_warning=warnings.append) as user:
        await user.create(PODS, pod, namespace=ATTACKER)
        try:
            assert any(words in warning for warning in warnings), warnings
            for command in (("why", f"pod/{name}", "-n", ATTACKER), ("lint", "--cluster")):
                code, output = await fleet.cli(*command)
                assert (code, words in output) == (1, True), output
        finally:
            await user.delete(PODS, name, namespace=ATTACKER)
