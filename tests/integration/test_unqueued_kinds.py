"""Kinds that are not queued: everybody who puts a queue label on one is told the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.config import load_configuration
from multiqueue.api.names import QUEUE_NAME
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import ApiError, NotFound
from multiqueue.kube.resources import PODS, resource_of
from tests.integration.test_cli_commands import queue_cluster
from tests.webhook_world import MANAGED, webhook_world

WORDS = "Pods are not queued: this one runs at once, outside of every quota"
TODO = 'add "pod" to integrations.frameworks of the manager, or remove the label'
CRON_WORDS = "CronJobs are not queued: this one runs at once, outside of every quota"
CRON_TODO = "put the label into spec.jobTemplate.metadata.labels: the Jobs that it makes are queued"
CRON_JOBS = resource_of("batch/v1", "cronjobs", "CronJob")


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {QUEUE_NAME: "q"}, **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def cron_job(name: str) -> dict[str, Any]:
    template = {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "labels": {QUEUE_NAME: "q"}},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}},
    }


OF_A_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}


@pytest.mark.parametrize("policy", ["Warn", "Deny"])
async def test_a_labelled_pod_is_warned_of_or_refused(policy: str) -> None:
    config = load_configuration(
        f"{{webhook: {{host: 127.0.0.1, port: 0}}, unsupportedKinds: {policy}}}"
    )
    warnings: list[str] = []
    async with ApiServer(ServerOptions(tls=False)) as server:
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        async with (
            webhook_world(credentials, config) as world,
            KubeClient(credentials, on_warning=warnings.append) as client,
        ):
            await client.create(
                PODS, pod("of-a-job", ownerReferences=[OF_A_JOB]), namespace=MANAGED
            )
            await client.create(PODS, pod("unlabelled", labels={}), namespace=MANAGED)
            await client.create(PODS, pod("unmanaged"), namespace="kube-system")
            assert warnings == []
            if policy == "Deny":
                with pytest.raises(ApiError, match=f"Forbidden: {WORDS}; {TODO}"):
                    await client.create(PODS, pod("p"), namespace=MANAGED)
                return
            await client.create(PODS, pod("p"), namespace=MANAGED)
            assert warnings == [f"metadata.labels[{QUEUE_NAME}]: {WORDS}; {TODO}"]
            later = {"metadata": {"annotations": {"a": "b"}}}
            await client.patch(PODS, "p", later, namespace=MANAGED)
            assert len(warnings) == 1, "it has been told"
            assert world.service.registered.is_set()


async def test_commands_tell_the_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cron.yaml"
    file.write_text(yaml.safe_dump(cron_job("c")))
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        (result,) = await shell.json("submit", "-f", str(file), "-n", "team", code=1)
        assert (result["outcome"], result["message"]) == ("refused", f"{CRON_WORDS}; {CRON_TODO}")
        with pytest.raises(NotFound):
            await client.get(CRON_JOBS, "c", namespace="team")
        await client.create(CRON_JOBS, cron_job("c"), namespace="team")
        assert f'CronJob "team/c": {CRON_WORDS}; {CRON_TODO}' in await shell.refusal(
            "why", "cronjob/c"
        )
        found = await shell.json("lint", "--cluster", "--rule", "kind-not-queued", code=1)
        (finding,) = found["findings"]
        assert (finding["kind"], finding["name"], finding["what"]) == ("CronJob", "c", CRON_WORDS)
