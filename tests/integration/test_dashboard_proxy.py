"""The dashboard behind a proxy: below a path, and with readers whom the proxy logs in."""

from __future__ import annotations

from tests.integration.test_dashboard_login import login_world
from tests.integration.test_fleet_api import FLEET

BELOW = "https://example.com/queue/"
PROXIED = {"Host": "example.com", "Origin": "https://example.com"}


async def test_below_a_path_the_proxy_may_strip_it_or_not() -> None:
    async with login_world(url=BELOW) as world:
        page = await world.open()
        token = await world.token("ops", "cluster-admin", everywhere=True)
        for path in ("/", "/queue/", "/queue"):
            status, body = await page.get(path, **PROXIED)
            assert (status, b'<base href="/queue/">' in body) == (200, True), path
        for path in (f"/queue{FLEET}/totals", "/queue/about.json", "/queued/about.json"):
            assert (await page.get(path))[0] == 401, path
        for base in ("", "/queue"):
            page = await world.open()
            assert (await page.post(f"{base}/login", {"token": token}, **PROXIED))[0] == 200
            assert (await page.get(f"{base}{FLEET}/totals"))[0] == 200
            action = (await page.get(f"{base}/about.json"))[1]["action"]
            for outside in ("/queue/queue/about.json", "/queued/about.json"):
                assert (await page.get(outside))[0] == 404, outside
            assert (await page.get(f"{base}/api/v1/secrets"))[0] == 404
            assert (await page.post(f"{base}/logout", **PROXIED))[0] == 403
            sign = {"X-Multiqueue-Action": action}
            assert (await page.post(f"{base}/logout", **PROXIED, **sign))[0] == 200
