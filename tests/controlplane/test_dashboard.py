"""The dashboard beside the manager, with tokens of a real API server."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from multiqueue.visibility.setup import SECRET_NAME
from tests.controlplane.audit import audit_arguments, requests
from tests.controlplane.conftest import StartControlPlane
from tests.controlplane.installed import (
    CONFIG,
    NAMESPACE,
    install,
    leader,
    let_visibility_be_reached,
)
from tests.controlplane.plane import HOST, RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.ports import find_own_ports
from tests.e2e.checks import read
from tests.install_steps import QUEUE
from tests.integration.test_dashboard_login import STREAM, Page
from tests.integration.test_fleet_api import FLEET, eventually
from tests.processes import wait_for_text

TEAM = "team"
SERVED = "apiservice/v1alpha1.fleet.multiqueue.dev"
AGENT, LOGIN_AGENT = "multiqueue-dashboard", "multiqueue-dashboard-login"


@dataclass
class Tokens:
    """Makes accounts, and asks for their tokens as the login page says."""

    plane: RealControlPlane

    def make(self, name: str, role: str, *, everywhere: bool = False) -> str:
        account = f"--serviceaccount={TEAM}:{name}"
        binding = "clusterrolebinding" if everywhere else "rolebinding"
        where = () if everywhere else (f"--namespace={TEAM}",)
        self.plane.kubectl("create", "serviceaccount", name, f"--namespace={TEAM}")
        self.plane.kubectl("create", binding, name, f"--clusterrole={role}", account, *where)
        return self.plane.kubectl("create", "token", name, "-n", TEAM, "--duration", "8h").strip()


def trust(plane: RealControlPlane) -> ssl.SSLContext:
    """What a browser of this company trusts: the authority of the manager."""
    path = r"jsonpath={.data.ca\.crt}"
    found = plane.kubectl("get", "secret", SECRET_NAME, f"--namespace={NAMESPACE}", f"-o={path}")
    return ssl.create_default_context(cadata=base64.b64decode(found).decode())


async def use(plane: RealControlPlane, ports: list[int]) -> None:
    tokens, context = Tokens(plane), trust(plane)
    async with AsyncExitStack() as stack:

        async def open_page(jar: Any = None, port: int = ports[0]) -> Page:
            connector = aiohttp.TCPConnector(ssl=context)
            jar = jar or aiohttp.CookieJar(unsafe=True)
            browser = aiohttp.ClientSession(cookie_jar=jar, connector=connector)
            return Page(await stack.enter_async_context(browser), f"https://{HOST}:{port}")

        page = await open_page()
        assert (await page.log_in("wrong"))[0] == 401
        other = plane.kubectl("create", "token", "default", "-n", TEAM, "--audience=other").strip()
        assert (await page.log_in(other))[0] == 401, "a token for somebody else"

        viewer = await open_page()
        assert await viewer.log_in(tokens.make("viewer", "view")) == (200, {})
        await assert_sees_the_team_only(viewer)
        second = await open_page(viewer.browser.cookie_jar, ports[1])
        await assert_sees_the_team_only(second)

        operator = await open_page()
        token = tokens.make("operator", "kueue-batch-admin-role", everywhere=True)
        assert await operator.log_in(token) == (200, {})
        assert await hold(operator) == 200
        assert await hold(viewer) == 403
        path = f"{FLEET}/feeds?watch=1&topics=totals,quotas"
        async with operator.browser.get(operator.base + path, headers=STREAM) as feed:
            line = await feed.content.readuntil(b"\n\n")
            assert f"system:serviceaccount:{TEAM}:operator".encode() in line
        plane.kubectl("delete", "serviceaccount", "operator", f"--namespace={TEAM}")

        async def is_signed_out() -> bool:
            return (await operator.get(f"{FLEET}/totals"))[0] == 401

        await eventually(is_signed_out)  # an API server remembers a valid token for 10 s


async def assert_sees_the_team_only(page: Page) -> None:
    assert (await page.get("/about.json"))[1]["namespace"] == TEAM
    status, found = await page.get(f"{FLEET}/namespaces/{TEAM}/standings")
    assert (status, [row["status"]["job"] for row in found["items"]]) == (200, ["Job/v1beta2"])
    for path in ("standings", "quotas", f"namespaces/{NAMESPACE}/standings", "workers"):
        assert (await page.get(f"{FLEET}/{path}"))[0] == 403, path


async def hold(page: Page) -> int:
    target = {"kind": "clusterqueues", "name": "v1beta2", "verb": "hold"}
    action = (await page.get("/about.json"))[1]["action"]
    _, seen = await page.get("/actions.json?kind=clusterqueues&name=v1beta2")
    body = {**target, "uid": seen.get("uid"), "state": seen.get("state")}
    return (await page.post("/actions.json", body, **{"X-Multiqueue-Action": action}))[0]


@pytest.mark.timeout(300)
def test_readers_of_a_real_cluster_log_in_with_their_tokens(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    audit = audit_arguments(tmp_path / "plane")
    plane = start_control_plane("plane", extra_arguments=audit)
    install(plane)
    plane.kubectl("apply", "--server-side", "-k", str(CONFIG / "dashboard"))
    let_visibility_be_reached(plane)
    plane.kubectl("create", "namespace", TEAM)
    ports = find_own_ports(2)
    settings = [
        {
            "featureGates": {"VisibilityOnDemand": True},
            "dashboard": {"bindAddress": f"{HOST}:{port}"},
        }
        for port in ports
    ]
    first, second = tmp_path / "first", tmp_path / "second"
    with (
        leader(plane, first, **settings[0]) as program,
        leader(plane, second, **settings[1]) as standby,
    ):
        for process, folder in ((program, first), (standby, second)):
            wait_for_text(process, folder / "log", r'"event":"dashboard listens"')
        plane.kubectl("wait", SERVED, "--for=condition=Available", "--timeout=60s")
        plane.kubectl("apply", "-f", "-", stdin=QUEUE.replace("VERSION", "v1beta2"))
        waits = f"--namespace={TEAM}", "--timeout=60s"
        until(lambda: read(plane, "workloads", TEAM), "the Workload of the job")
        plane.kubectl("wait", "workload", "--all", "--for=condition=QuotaReserved", *waits)
        asyncio.run(use(plane, ports))
    for folder in (first, second):
        assert '"level":"error"' not in (folder / "log").read_text()
    assert '"event":"action"' in (first / "log").read_text()
    assert_asked_as_the_reader(plane)


def assert_asked_as_the_reader(plane: RealControlPlane) -> None:
    """By the audit log; in its own name the manager only has tokens reviewed."""
    asked: dict[str, set[tuple[str, ...]]] = {AGENT: set(), LOGIN_AGENT: set()}
    held = []
    for event in requests(plane):
        user = event["user"].get("username", "").rpartition(":")[2]
        target = event.get("objectRef", {})
        if event.get("userAgent") == AGENT:
            asked[AGENT].add((user,))
        elif event.get("userAgent") == LOGIN_AGENT:
            asked[LOGIN_AGENT].add((user, event["verb"], target["resource"]))
        if event["verb"] == "patch" and "fieldManager=multiqueue-dashboard" in event["requestURI"]:
            held.append((user, target["name"], event["responseStatus"]["code"]))
    assert asked[AGENT] == {("viewer",), ("operator",)}
    assert asked[LOGIN_AGENT] == {("kueue-controller-manager", "create", "tokenreviews")}
    assert held == [("operator", "v1beta2", 200)]
