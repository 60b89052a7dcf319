"""kubectl's generators: what it makes from flags, and sends as protobuf."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.contract.client import pod, unique
from tests.contract.kubectl import Kubectl

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

NAMESPACED: dict[str, tuple[str, Any]] = {
    "configmap a --from-literal=k=v": ("{.data}", {"k": "v"}),
    "secret generic a --from-literal=k=v": ("{.data}", {"k": "dg=="}),
    "serviceaccount a": ("{.metadata.name}", "a"),
    "quota a --hard=cpu=1,pods=2": ("{.spec.hard}", {"cpu": "1", "pods": "2"}),
    "role a --verb=get,list --resource=pods --resource-name=x": (
        "{.rules[0]}",
        {
            "apiGroups": [""],
            "resourceNames": ["x"],
            "resources": ["pods"],
            "verbs": ["get", "list"],
        },
    ),
    "rolebinding a --role=r --user=u": (
        "{.roleRef}",
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    ),
    "deployment a --image=b --replicas=0": ("{.spec.replicas}", 0),
    "job a --image=b -- x --flag": (
        "{.spec.template.spec.containers[0].command}",
        ["x", "--flag"],
    ),
    "cronjob a --image=b --schedule=@daily": ("{.spec.schedule}", "@daily"),
    "service clusterip a --clusterip=None": ("{.spec.clusterIP}", "None"),
    "service externalname a --external-name=b.c": ("{.spec.externalName}", "b.c"),
    "pdb a --selector=x=y --min-available=50%": ("{.spec.minAvailable}", "50%"),
}


async def shown(kubectl: Kubectl, name: Sequence[str], path: str) -> Any:
    """What stands at a path: JSON, or the bare text that jsonpath prints of a string."""
    text = await kubectl("get", *name, "-o", f"jsonpath={path}")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


@pytest.mark.parametrize("arguments", NAMESPACED)
async def test_create_in_a_namespace(kubectl: Kubectl, arguments: str) -> None:
    words = arguments.split()
    await kubectl("create", *words)
    path, want = NAMESPACED[arguments]
    assert await shown(kubectl, (words[0], "a"), path) == want


async def test_create_for_the_cluster(kubectl: Kubectl) -> None:
    name = unique("kubectl")
    for words, path, want in (
        (f"clusterrole {name} --verb=get --resource=nodes", "{.rules[0].resources}", ["nodes"]),
        (f"clusterrolebinding {name} --clusterrole={name} --group=g", "{.subjects[0].name}", "g"),
        (f"priorityclass {name} --value=-5 --description=d", "{.value}", -5),
    ):
        kind, *arguments = words.split()
        await kubectl("create", kind, *arguments)
        assert await shown(kubectl, (kind, name), path) == want
        await kubectl("delete", kind, name)


async def test_secrets_of_other_types(kubectl: Kubectl, tmp_path: Path) -> None:
    await kubectl(
        "create", "secret", "docker-registry", "a", "--docker-username=u", "--docker-password=p"
    )
    got = await kubectl("get", "secret", "a", "-o", "jsonpath={.type}")
    assert got == "kubernetes.io/dockerconfigjson"
    refused = await kubectl.run("create", "secret", "tls", "b", "--cert=none", "--key=none")
    assert refused.code == 1


async def test_a_job_from_a_cron_job(kubectl: Kubectl) -> None:
    await kubectl("create", "cronjob", "a", "--image=b", "--schedule=@daily")
    await kubectl("create", "job", "now", "--from=cronjob/a")
    got = json.loads(await kubectl("get", "job", "now", "-o", "json"))
    assert got["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert got["metadata"]["ownerReferences"][0]["kind"] == "CronJob"


async def test_wrong_values_are_told_by_field(kubectl: Kubectl) -> None:
    outcome = await kubectl.run("create", "configmap", "Not_A_Name")
    assert 'ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value' in outcome.err
    again = await kubectl.run("create", "namespace", kubectl.namespace)
    assert "AlreadyExists" in again.err


async def test_who_am_i(kubectl: Kubectl) -> None:
    got = json.loads(await kubectl("auth", "whoami", "-o", "json"))
    assert got["status"]["userInfo"]["username"]


async def test_what_may_i_do(kubectl: Kubectl) -> None:
    assert await kubectl("auth", "can-i", "create", "jobs") == "yes\n"
    assert "*.*" in await kubectl("auth", "can-i", "--list")


async def test_a_token_of_a_service_account(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "a")
    token = await kubectl("create", "token", "a", "--duration=10m")
    assert token.count(".") == 2


async def test_run_and_expose(kubectl: Kubectl) -> None:
    await kubectl("run", "a", "--image=b", "--restart=Never", "--labels=x=y")
    await kubectl("expose", "pod", "a", "--port=80", "--target-port=http")
    service = json.loads(await kubectl("get", "service", "a", "-o", "json"))
    assert service["spec"]["selector"] == {"x": "y"}
    assert service["spec"]["ports"][0]["targetPort"] == "http"


async def test_a_rollout(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "a", "--image=b", "--replicas=0")
    await kubectl("set", "image", "deployment/a", "b=c")
    await kubectl("rollout", "restart", "deployment/a")
    await kubectl("rollout", "pause", "deployment/a")
    got = json.loads(await kubectl("get", "deployment", "a", "-o", "json"))
    template = got["spec"]["template"]
    assert got["spec"]["paused"] is True
    assert template["spec"]["containers"][0]["image"] == "c"
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


async def test_cordon_taint_and_drain(kubectl: Kubectl) -> None:
    node = unique("node")
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    await kubectl("create", "-f", "-", stdin=body)
    await kubectl("create", "-f", "-", stdin=pod("a", node=node))
    await kubectl("taint", "node", node, "k=v:NoSchedule")
    draining = await kubectl.start("drain", node, "--force", "--timeout=30s")
    await kubectl("wait", "--for=jsonpath={.metadata.deletionTimestamp}", "pod/a")
    await kubectl("delete", "pod", "a", "--force", "--grace-period=0")
    out, err = await asyncio.wait_for(draining.communicate(), 40)
    assert b"drained" in out, err
    spec = json.loads(await kubectl("get", "node", node, "-o", "json"))["spec"]
    assert spec["unschedulable"] is True
    assert {"key": "k", "value": "v", "effect": "NoSchedule"} in spec["taints"]
    await kubectl("uncordon", node)
    await kubectl("delete", "node", node)
