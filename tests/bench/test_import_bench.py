"""``multiqueue import`` of 10,000 pods: requests per second, memory, and a check of the result."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.resources import PODS, WORKLOADS
from multiqueue.runtime.manifests import create_missing
from tests.bench.fleet_burst import QUEUE, queue_objects
from tests.processes import running, wait_for_text

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

PODS_COUNT = 10_000
QPS = 400
LARGEST_MIB = 160
"""Resident memory of the program: pages of pods, not all of them."""


def pod_of(number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number:05}", "namespace": QUEUE, "labels": {"src": "a"}},
        "spec": {"containers": [container], "nodeName": "n1"},
    }


async def create_pods(client: KubeClient) -> None:
    todo = iter(range(PODS_COUNT))

    async def work() -> None:
        for number in todo:
            await client.create(PODS, pod_of(number))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(16):
            tasks.create_task(work())


def run_import(kubeconfig: Path, *options: str) -> tuple[str, float, int]:
    """Return what it printed, its seconds, and its largest resident memory in bytes."""
    mapping = ("-n", QUEUE, "--queue-label", "src", "--queue-mapping", f"a={QUEUE}")
    rate = ("--qps", str(QPS), "--burst", str(QPS), "--parallel", "16")
    target = ("--kubeconfig", str(kubeconfig))
    begun = time.monotonic()
    command = [sys.executable, "-m", "multiqueue", "import", *mapping, *rate, *options, *target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output
    return output, time.monotonic() - begun, usage.ru_maxrss * 1024


async def test_ten_thousand_pods_are_imported_without_overload(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    with running("apiserver", "--log-level", "error", log=log) as process:
        kubeconfig = Path(await asyncio.to_thread(find_kubeconfig, process, log))
        credentials = await Credentials.from_kubeconfig_file(kubeconfig)
        async with KubeClient(credentials, limiter=RateLimiter(rate=5000)) as client:
            await create_missing(client, queue_objects(2 * PODS_COUNT))
            await create_pods(client)
            report = []
            for what, options in (
                ("check", ()),
                ("import", ("--dry-run=false",)),
                ("import again", ("--dry-run=false",)),
            ):
                told, seconds, memory = await asyncio.to_thread(run_import, kubeconfig, *options)
                mib = memory / 2**20
                report.append(f"{what}: {seconds:.1f} s, at most {mib:.0f} MiB")
                assert re.search(rf"^{PODS_COUNT} found.*, 0 failed", told, re.MULTILINE), told
                assert mib < LARGEST_MIB
            found = await client.list(WORKLOADS, namespace=QUEUE)
            assert len(found.items) == PODS_COUNT
            assert all(each["status"]["admission"] for each in found.items)
            print("\n" + "\n".join(report))  # noqa: T201


def find_kubeconfig(process: Any, log: Path) -> str:
    return wait_for_text(process, log, r"KUBECONFIG=(\S+)").group(1)
