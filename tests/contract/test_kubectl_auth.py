"""What people ask kubectl about rights, through a real kubectl."""

from typing import Any

import pytest

from tests.contract.client import unique
from tests.contract.kubectl import Kubectl

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]


async def test_who_am_i(kubectl: Kubectl) -> None:
    shown = await kubectl("auth", "whoami", "--as=jane", "--as-group=dev", "-o", "json")
    assert '"username": "jane"' in shown
    table = await kubectl("auth", "whoami", "--as=system:serviceaccount:a:b")
    assert table.splitlines()[1].split() == ["Username", "system:serviceaccount:a:b"]


async def test_a_role_for_somebody(kubectl: Kubectl) -> None:
    jane = unique("jane")
    await kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log")
    await kubectl("create", "rolebinding", "readers", "--role=reader", f"--user={jane}")
    assert await kubectl.until("auth", "can-i", "get", "pods", f"--as={jane}") == "yes\n"
    refused = await kubectl.run("auth", "can-i", "delete", "pods", f"--as={jane}")
    assert (refused.code, refused.out) == (1, "no\n")
    listed = (await kubectl("auth", "can-i", "--list", f"--as={jane}")).splitlines()
    assert ["pods/log", "[]", "[]", "[get", "list]"] in [line.split() for line in listed]
    outcome = await kubectl.run("get", "secrets", f"--as={jane}")
    assert outcome.code == 1
    assert f'User "{jane}" cannot list resource "secrets"' in outcome.err


async def test_a_token_of_an_account(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "robot")
    token = (await kubectl("create", "token", "robot", "--duration=10m")).strip()
    name = ("-o", "jsonpath={.status.userInfo.username}")
    got = await kubectl("auth", "whoami", f"--token={token}", *name)
    assert got == f"system:serviceaccount:{kubectl.namespace}:robot"
    outcome = await kubectl.run("create", "token", "robot", "--duration=1m")
    assert "may not specify a duration less than 10 minutes" in outcome.err


async def test_roles_are_reconciled(kubectl: Kubectl) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    role: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": kubectl.namespace},
        "rules": [rule],
    }
    await kubectl("auth", "reconcile", "-f", "-", stdin=role)
    more = {**rule, "verbs": ["list"]}
    await kubectl("auth", "reconcile", "-f", "-", stdin={**role, "rules": [more]})
    verbs = await kubectl("get", "role", "reader", "-o", "jsonpath={.rules[*].verbs[*]}")
    assert verbs == "get list"
