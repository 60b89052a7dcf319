"""Rights on a worker are asked for with few requests, and answered as one by one."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from typing import Any

import pytest

from multiqueue.cli.projection.observe import NO_NAMESPACE, ask_rights
from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient, SendOutcome
from multiqueue.kube.credentials import Credentials
from multiqueue.projection.worker_role import Right, list_rights
from multiqueue.runtime.manifests import create_missing
from tests.least_privilege import REMOTE, REMOTE_TOKEN, kubeconfig_of, rbac_objects

Json = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
PODS = Right("", "pods", "list")


def make_role(kind: str, **place: str) -> list[Json]:
    """A role that may list pods, and its binding to the user ``some``."""
    metadata = {"name": "pods", **place}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    head = {"apiVersion": f"{GROUP}/v1", "metadata": metadata}
    subject = {"kind": "User", "name": "some", "apiGroup": GROUP}
    reference = {"apiGroup": GROUP, "kind": kind, "name": "pods"}
    binding = {"kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}
    return [{**head, "kind": kind, "rules": [rule]}, {**head, **binding}]


class RightsWorld:
    """A cluster, and clients of users; `asked` counts what these asked."""

    def __init__(self, server: ApiServer, stack: AsyncExitStack) -> None:
        self._server, self._stack, self.asked = server, stack, 0

    async def connect(self, token: str = "") -> KubeClient:
        kubeconfig = self._server.kubeconfig()
        if token:
            kubeconfig = kubeconfig_of(kubeconfig, token)
        credentials = await Credentials.from_kubeconfig_dict(kubeconfig)
        client = KubeClient(credentials, on_outcome=self._count if token else None)
        return await self._stack.enter_async_context(client)

    def _count(self, _: SendOutcome) -> None:
        self.asked += 1


@pytest.fixture
def tokens() -> dict[str, ApiUser]:
    return {REMOTE_TOKEN: REMOTE, "some": ApiUser("some", ("system:authenticated",))}


async def ask(
    tokens: dict[str, ApiUser], objects: list[Json], token: str, rights: tuple[Right, ...]
) -> tuple[dict[Right, bool], int]:
    """The rights of a user, and how many requests told them."""
    async with ApiServer(ServerOptions(tls=False, tokens=tokens)) as server, AsyncExitStack() as s:
        world = RightsWorld(server, s)
        await create_missing(await world.connect(), objects)
        found = await ask_rights(await world.connect(token), rights)
        return found, world.asked


async def test_all_rights_of_the_role_are_one_request(tokens: dict[str, ApiUser]) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
    found, asked = await ask(tokens, [namespace, *rbac_objects()], REMOTE_TOKEN, list_rights())
    assert list(found) == list(list_rights())
    assert all(found.values())
    assert asked == 1


@pytest.mark.parametrize(
    ("objects", "allowed"),
    [
        ([], False),
        (make_role("ClusterRole"), True),
        (make_role("Role", namespace="default"), False),
    ],
    ids=["none", "everywhere", "in one namespace"],
)
async def test_a_right_counts_if_it_holds_in_all_namespaces(
    tokens: dict[str, ApiUser], objects: list[Json], allowed: bool
) -> None:
    found, asked = await ask(tokens, objects, "some", (PODS,))
    assert (found, asked) == ({PODS: allowed}, 1 if allowed else 2)


def test_no_namespace_can_have_the_name_that_is_asked_about() -> None:
    assert LABEL.fullmatch("default")
    assert not LABEL.fullmatch(NO_NAMESPACE)
