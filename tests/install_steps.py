"""What a cluster administrator does with config/, on any API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from multiqueue.kube.credentials import Credentials
from multiqueue.runtime.manager import Manager
from tests.integration.test_runtime_manager import get, make_config, running

CONFIG = Path(__file__).parents[1] / "config"
BASES = (
    "crd",
    "manager",
    "rbac",
    "checkpoint-hooks",
    "webhook",
    "visibility",
    "default",
    "worker-role",
    "worker-role-pods",
    "worker-role-hooks",
    "worker-projection-role",
    "worker-guard",
    "dashboard",
)
ADDITIONS = ("prometheus", "prometheus-tls", "certmanager")
"""In an order in which each may be applied alone; the namespace is the manager's."""
SAMPLES = (
    "samples",
    "samples-worker/worker-a100",
    "samples-worker/worker-h100",
    "samples-provisioning",
    "samples-topology",
    "samples-dispatch",
    "samples-disruption",
    "samples-quota-plan",
)
SYSTEM = "kueue-system"

Kubectl = Callable[..., Awaitable[str]]

FOREIGN = {
    "prometheusrules": ("monitoring.coreos.com", "PrometheusRule"),
    "servicemonitors": ("monitoring.coreos.com", "ServiceMonitor"),
    "certificates": ("cert-manager.io", "Certificate"),
    "issuers": ("cert-manager.io", "Issuer"),
}
"""Kinds of others that some bases need: plural -> group and kind."""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP}
spec:
  group: GROUP
  names: {kind: KIND, plural: PLURAL}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

QUEUE = """
apiVersion: kueue.x-k8s.io/VERSION
kind: ResourceFlavor
metadata: {name: VERSION}
---
apiVersion: kueue.x-k8s.io/VERSION
kind: ClusterQueue
metadata: {name: VERSION}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: VERSION
      resources: [{name: cpu, nominalQuota: 2}]
---
apiVersion: kueue.x-k8s.io/VERSION
kind: LocalQueue
metadata: {name: VERSION, namespace: team}
spec: {clusterQueue: VERSION}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: VERSION
  namespace: team
  labels: {kueue.x-k8s.io/queue-name: VERSION}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: registry.example.com/train
        resources: {requests: {cpu: 1}}
"""


async def apply_all_bases(kubectl: Kubectl, *apply: str) -> None:
    """Apply each base, and with the default one most of them again: nobody took what they say."""
    for plural, (group, kind) in FOREIGN.items():
        await define(kubectl, plural, group, kind)
    for base in (*BASES, *ADDITIONS):
        await kubectl(*apply, "-k", str(CONFIG / base))


async def define(kubectl: Kubectl, plural: str, group: str, kind: str) -> None:
    """Have a kind served that the cluster does not know."""
    definition = DEFINITION.replace("PLURAL", plural).replace("GROUP", group)
    await kubectl("apply", "-f", "-", stdin=definition.replace("KIND", kind))
    await until_served(kubectl, f"{plural}.{group}")


async def until_served(kubectl: Kubectl, resource: str) -> None:
    while resource not in await kubectl("api-resources", "--cached=false", "-o=name"):
        pass


async def token_of(kubectl: Kubectl, service_account: str) -> str:
    return (await kubectl("create", "token", "-n", SYSTEM, service_account)).strip()


async def assert_no_wildcard(kubectl: Kubectl, token: str) -> None:
    """``kubectl auth can-i --list`` shows only what is named."""
    for namespace in (SYSTEM, "default"):
        listed = await kubectl("auth", "can-i", "--list", f"--token={token}", "-n", namespace)
        rows = listed.splitlines()[1:]
        assert any(row.startswith("workloads.kueue.x-k8s.io ") for row in rows), listed
        assert not [row for row in rows if row.startswith("*") or "[*]" in row], listed


async def assert_both_versions_are_admitted(kubectl: Kubectl, credentials: Credentials) -> None:
    """A manager with these credentials becomes ready, and admits what people submit."""
    manager = Manager(make_config(leaderElection={}), credentials)
    async with running(manager) as task:
        at_work = asyncio.ensure_future(manager.until_at_work())
        await asyncio.wait({at_work, task}, return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), task.result()
        assert await get(manager.health_port, "/readyz") == (200, "ok")
        await kubectl("create", "namespace", "team")
        for version in ("v1beta1", "v1beta2"):
            await kubectl("apply", "-f", "-", stdin=QUEUE.replace("VERSION", version))
        for version in ("v1beta1", "v1beta2"):
            started = "--for=jsonpath={.spec.suspend}=false"
            await kubectl("wait", "-n=team", started, f"job/{version}")
            admitted = "jsonpath={.items[*].status.admission.clusterQueue}"
            found = await kubectl("get", "-n=team", "workloads", "-o", admitted)
            assert version in found.split()
        await apply_samples(kubectl)  # its webhooks look at them, too


async def apply_samples(kubectl: Kubectl) -> None:
    """Each sample is accepted, and has no field that the API server does not know."""
    for name in SAMPLES:
        await kubectl("apply", "--validate=strict", "-f", str(CONFIG / name))
        # Manager and workers have LocalQueues of the same names, which never change their queue.
        await kubectl("delete", "localqueues", "--all", "--all-namespaces")


async def assert_users_may_submit_and_no_more(kubectl: Kubectl) -> None:
    """The role for those who use the queues, bound in their namespace."""
    role = "--clusterrole=kueue-batch-user-role"
    await kubectl("create", "rolebinding", "alice", role, "--user=alice", "-n=team")

    async def may(*wanted: str) -> bool:
        # can-i fails where the answer is no.
        answer = await kubectl("auth", "can-i", *wanted, "--as=alice", "-n=team", check=False)
        return answer.strip() == "yes"

    while not await may("create", "jobs.batch"):
        pass  # roles are added up a moment later
    assert await may("list", "workloads.kueue.x-k8s.io")
    assert not await may("update", "workloads.kueue.x-k8s.io")
    assert not await may("list", "clusterqueues.kueue.x-k8s.io")
    assert not await may("create", "pods")
