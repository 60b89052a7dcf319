"""The dashboard behind a proxy, with ID tokens of an issuer that a real API server trusts."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from tests.controlplane.conftest import StartControlPlane
from tests.controlplane.installed import install, leader, let_visibility_be_reached
from tests.controlplane.oidc_issuer import PREFIX, OidcIssuer
from tests.controlplane.plane import HOST, RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.ports import find_own_ports
from tests.controlplane.test_dashboard import SERVED, TEAM, hold, trust
from tests.e2e.checks import read
from tests.install_steps import QUEUE
from tests.integration.test_dashboard_login import STREAM, Page
from tests.integration.test_fleet_api import FLEET, eventually
from tests.processes import wait_for_text

ADMINS = "queue-admins"


async def use(plane: RealControlPlane, issuer: OidcIssuer, other: OidcIssuer, port: int) -> None:
    context = trust(plane)
    async with AsyncExitStack() as stack:

        async def open_page(token: str, cookie: str = "") -> Page:
            headers = {"Authorization": f"Bearer {token}", "Cookie": cookie}
            connector = aiohttp.TCPConnector(ssl=context)
            browser = aiohttp.ClientSession(headers=headers, connector=connector)
            await stack.enter_async_context(browser)
            return Page(browser, f"https://{HOST}:{port}")

        operator = await open_page(issuer.token("grace", groups=[ADMINS]))

        async def is_known() -> bool:
            return (await operator.get("/about.json"))[0] == 200

        await eventually(is_known)  # an API server takes a while until it knows its issuer
        about = (await operator.get("/queue/about.json"))[1]
        assert about["login"] == {"reader": f"{PREFIX}grace"}
        assert (await operator.get(f"/queue{FLEET}/standings"))[0] == 200

        viewer = await open_page(issuer.token("ada"), f"multiqueue-namespace={TEAM}")
        assert (await viewer.get("/about.json"))[1]["namespace"] == TEAM
        status, found = await viewer.get(f"{FLEET}/namespaces/{TEAM}/standings")
        assert (status, len(found["items"])) == (200, 1)
        assert (await viewer.get(f"{FLEET}/standings"))[0] == 403
        assert [await hold(viewer), await hold(operator)] == [403, 200]

        wrong = {
            "of another audience": issuer.token("grace", aud="other"),
            "that has expired": issuer.token("grace", seconds=-60),
            "of another issuer": other.token("grace", groups=[ADMINS]),
            "that another one signed": other.token("grace", iss=issuer.url, groups=[ADMINS]),
        }
        for which, token in wrong.items():
            page = await open_page(token)
            for path in ("/about.json", f"{FLEET}/totals"):
                assert (await page.get(path))[0] == 401, which

        brief = await open_page(issuer.token("grace", seconds=4, groups=[ADMINS]))
        path = f"{brief.base}{FLEET}/feeds?watch=1&topics=totals"
        async with brief.browser.get(path, headers=STREAM) as feed, asyncio.timeout(30):
            assert b'"code":"expired"' in await feed.read()
        assert (await brief.get("/about.json"))[0] == 401


@pytest.mark.timeout(300)
def test_id_tokens_that_a_proxy_passes_on_are_those_of_readers(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with OidcIssuer(tmp_path) as issuer, OidcIssuer(tmp_path / "other") as other:
        plane = start_control_plane("plane", extra_arguments=issuer.arguments)
        install(plane)
        let_visibility_be_reached(plane)
        plane.kubectl("create", "namespace", TEAM)
        role = "--clusterrole=kueue-batch-admin-role"
        plane.kubectl("create", "clusterrolebinding", "admins", role, f"--group={ADMINS}")
        user = f"--user={PREFIX}ada", f"--namespace={TEAM}"
        plane.kubectl("create", "rolebinding", "ada", "--clusterrole=view", *user)
        (port,) = find_own_ports(1)
        dashboard = {
            "bindAddress": f"{HOST}:{port}",
            "url": "https://example.com/queue",
            "auth": {"mode": "Proxy"},
        }
        gates, folder = {"VisibilityOnDemand": True}, tmp_path / "manager"
        with leader(plane, folder, featureGates=gates, dashboard=dashboard) as program:
            wait_for_text(program, folder / "log", r'"event":"dashboard listens"')
            plane.kubectl("wait", SERVED, "--for=condition=Available", "--timeout=60s")
            plane.kubectl("apply", "-f", "-", stdin=QUEUE.replace("VERSION", "v1beta2"))
            waits = f"--namespace={TEAM}", "--timeout=60s"
            until(lambda: read(plane, "workloads", TEAM), "the Workload of the job")
            plane.kubectl("wait", "workload", "--all", "--for=condition=QuotaReserved", *waits)
            asyncio.run(use(plane, issuer, other, port))
        assert '"level":"error"' not in (folder / "log").read_text()
