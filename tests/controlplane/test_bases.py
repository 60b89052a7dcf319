"""Each base of config/ on a real control plane, applied twice, and what it gives to people."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import Forbidden
from multiqueue.kube.resources import NAMESPACES, SECRETS, WORKLOADS
from tests.controlplane import binaries
from tests.controlplane.conftest import StartControlPlane
from tests.controlplane.plane import RealControlPlane
from tests.install_steps import (
    CONFIG,
    QUEUE,
    Kubectl,
    apply_all_bases,
    assert_users_may_submit_and_no_more,
)

WORKLOAD = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: one, namespace: team, finalizers: [kueue.x-k8s.io/resource-in-use]}
spec:
  queueName: v1beta2
  podSets:
  - name: main
    count: 1
    template:
      spec:
        restartPolicy: Never
        containers: [{name: c, image: registry.example.com/train}]
"""


async def assert_kubeconfig_of_a_worker(plane: RealControlPlane, kubectl: Kubectl) -> None:
    """What config/worker-role/kubeconfig.sh prints opens just what the role says."""
    context = (await kubectl("config", "current-context")).strip()
    path = f"{Path(binaries.get('kubectl')).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "PATH": path}
    command = [str(CONFIG / "worker-role" / "kubeconfig.sh"), context]
    printed = await asyncio.to_thread(subprocess.check_output, command, env=environment)
    credentials = await Credentials.from_kubeconfig_dict(yaml.safe_load(printed))
    async with KubeClient(credentials) as client:
        assert (await client.list(WORKLOADS)).items == []
        assert (await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
        with pytest.raises(Forbidden):
            await client.list(SECRETS)


async def assert_nothing_is_left(plane: RealControlPlane, kubectl: Kubectl) -> None:
    """Of what is installed and in use, config/uninstall.sh leaves the jobs."""
    await kubectl("apply", "-f", "-", stdin=QUEUE.replace("VERSION", "v1beta2"))
    await kubectl("apply", "-f", "-", stdin=WORKLOAD)
    in_use = '{"metadata":{"finalizers":["kueue.x-k8s.io/resource-in-use"]}}'
    await kubectl("patch", "clusterqueue", "v1beta2", "--type=merge", "-p", in_use)
    command = f"{binaries.get('kubectl')} --kubeconfig {plane.kubeconfig}"
    await asyncio.to_thread(
        subprocess.run,
        [str(CONFIG / "uninstall.sh")],
        env={**os.environ, "KUBECTL": command},
        check=True,
        capture_output=True,
        timeout=200,
    )
    for kind in ("crd", "clusterrole", "apiservice", "namespace"):
        left = await kubectl("get", kind, "-o", "name")
        names = [line.partition("/")[2] for line in left.split()]
        assert not [n for n in names if n.startswith("kueue") or n.endswith("kueue.x-k8s.io")]
    assert await kubectl("get", "-n=team", "jobs", "-o", "name") == "job.batch/v1beta2\n"


@pytest.mark.timeout(300)
async def test_bases_can_be_applied_again_and_users_get_their_rights(
    start_control_plane: StartControlPlane,
) -> None:
    plane = await asyncio.to_thread(start_control_plane, "bases")

    async def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> Any:
        command = [str(binaries.get("kubectl")), "--kubeconfig", str(plane.kubeconfig), *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, (arguments, done.stderr)
        return done.stdout

    await apply_all_bases(kubectl, "apply", "--server-side")
    # The embedded server does not know its kinds.
    await kubectl("apply", "--server-side", "-k", str(CONFIG / "visibility-apf"))
    await assert_kubeconfig_of_a_worker(plane, kubectl)
    await kubectl("create", "namespace", "team")
    await assert_users_may_submit_and_no_more(kubectl)
    await assert_nothing_is_left(plane, kubectl)
