"""The dashboard behind a proxy: below a path, and with readers whom the proxy logs in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import orjson

from multiqueue.kube.resources import CLUSTER_QUEUES, SERVICE_ACCOUNTS
from tests.integration.test_dashboard_login import STREAM, LoginWorld, Page, login_world
from tests.integration.test_fleet_api import FLEET
from tests.unit.dashboard.test_login import make_jwt

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


@asynccontextmanager
async def proxied(**more: Any) -> AsyncIterator[tuple[LoginWorld, Page]]:
    async with login_world(auth={"mode": "Proxy"}, **more) as world:
        yield world, await world.open()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_the_token_that_the_proxy_passes_on_is_all_that_is_needed() -> None:
    async with proxied() as (world, page):
        sent = bearer(await world.token("ops", "cluster-admin", everywhere=True))
        other = bearer(await world.token("guest"))
        assert (await page.get("/"))[0] == 200
        status, about = await page.get("/about.json", **sent)
        reader = f"system:serviceaccount:{world.reader.namespace}:ops"
        assert (status, about["login"]) == (200, {"reader": reader})
        assert len((await page.get(f"{FLEET}/standings", **sent))[1]["items"]) == 2
        assert (await page.get(f"{FLEET}/standings", **other))[0] == 403
        assert (await page.get("/about.json"))[0] == 401, "nothing is remembered"
        assert (await page.post("/login", {"token": sent["Authorization"][7:]}))[0] == 401
        assert (await page.post("/login", {"token": "t"}, **sent))[0] == 405
        assert len(page.browser.cookie_jar) == 0
        renewed = await page.get("/about.json", **bearer(await renew(world, "ops")))
        assert renewed == (200, about), "the page of a reader goes on with the next token"


async def renew(world: LoginWorld, name: str) -> str:
    """Return another token of the same account."""
    path = SERVICE_ACCOUNTS.path(world.reader.namespace, name, "token")
    spec = {"expirationSeconds": 1200}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await world.reader.client.request("POST", path, body=asked)
    token: str = orjson.loads(answer.body)["status"]["token"]
    return token


def forgeries(token: str) -> dict[str, list[tuple[str, str]]]:
    """Return headers that name nobody, by what is tried."""
    root = [("X-Remote-User", "system:admin"), ("X-Remote-Group", "system:masters")]
    good = ("Authorization", f"Bearer {token}")
    return {
        "no token": [],
        "the name of a user without the certificate of a proxy": root,
        "other names for it": [
            ("X-Forwarded-User", "system:admin"),
            ("X-Forwarded-Access-Token", token),
            ("X-Auth-Request-User", "system:admin"),
        ],
        "another scheme": [("Authorization", "Basic c3lzdGVtOmFkbWlu")],
        "no scheme": [("Authorization", token)],
        "an empty token": [("Authorization", "Bearer "), *root],
        "two tokens": [good, good],
        "a token behind another": [("Authorization", "Bearer x"), good],
        "two in one header": [("Authorization", f"Bearer x, Bearer {token}")],
        "a token with a space": [("Authorization", f"Bearer  {token}")],
        "a name that the sender wrote": [
            ("Authorization", f"Bearer {make_jwt(sub='system:admin', groups=['system:masters'])}")
        ],
        "a signature that was altered": [("Authorization", f"Bearer {token[:-8]}AAAAAAAA")],
        "a token in a cookie": [("Cookie", f"__Host-multiqueue-0={token}; token={token}")],
    }


async def test_whoever_has_no_single_valid_token_is_nobody() -> None:
    async with proxied() as (world, page):
        token = await world.token("ops", "cluster-admin", everywhere=True)
        for tried, headers in forgeries(token).items():
            for path in ("/about.json", f"{FLEET}/totals", "/usage.json"):
                async with page.browser.get(page.base + path, headers=headers) as answer:
                    assert answer.status == 401, (tried, path)
        expired = make_jwt(exp=1)
        status, told = await page.get("/about.json", **bearer(expired))
        assert (status, "has expired; the proxy has to renew it" in told["message"]) == (401, True)
        status, told = await page.get("/about.json", **bearer("unknown"))
        assert (status, "issuer and audience" in told["message"]) == (401, True)
        status, told = await page.get("/about.json")
        assert (status, "dashboard.auth.mode" in told["message"]) == (401, True)


async def test_names_beside_a_token_change_nothing_but_the_namespace_that_is_shown() -> None:
    async with proxied() as (world, page):
        token = await world.token("viewer", "view")
        names = {
            "X-Remote-User": "system:admin",
            "X-Remote-Group": "system:masters",
            "Impersonate-User": "system:admin",
            "Impersonate-Group": "system:masters",
        }
        status, about = await page.get("/about.json", **bearer(token), **names)
        assert about["login"]["reader"].endswith(":viewer")
        status, found = await page.get(f"{FLEET}/standings", **bearer(token), **names)
        assert (status, ":viewer" in found["message"]) == (403, True)
        own = world.reader.namespace
        for cookie, want in (("", own), ("research", "research"), ("A/../b", own), ("%22", own)):
            header = {"Cookie": f"multiqueue-namespace={cookie}"}
            status, about = await page.get("/about.json", **bearer(token), **header)
            assert (status, about["namespace"]) == (200, want)


async def test_an_action_needs_each_part_though_the_proxy_adds_the_token_to_all() -> None:
    async with proxied() as (world, page):
        sent = bearer(await world.token("ops", "cluster-admin", everywhere=True))
        another = bearer(await world.token("other", "cluster-admin", everywhere=True))
        queue = {"kind": "clusterqueues", "name": world.reader.asker.cluster_queue}
        found = await world.reader.client.get(CLUSTER_QUEUES, queue["name"])
        body = {**queue, "verb": "hold", "uid": found["metadata"]["uid"], "state": "None"}
        action = (await page.get("/about.json", **sent))[1]["action"]
        theirs = (await page.get("/about.json", **another))[1]["action"]
        assert theirs != action
        whole = {**sent, "X-Multiqueue-Action": action, "Content-Type": "application/json"}
        for name, values in {
            "X-Multiqueue-Action": ("", "x", theirs, action.upper()),
            "Origin": ("", "null", "https://evil.example", "http://queue.example.com"),
            "Host": ("evil.example", "queue.example.com.evil.example"),
            "Sec-Fetch-Site": ("cross-site", "same-site"),
            "Content-Type": ("", "text/plain", "application/x-www-form-urlencoded"),
            "Authorization": ("",),
        }.items():
            for value in values:
                status, _ = await page.post("/actions.json", body, **{**whole, name: value})
                assert status == (401 if name == "Authorization" else 403), (name, value)
        assert (await page.get("/actions.json", **whole))[0] == 400, "to read is no action"
        foreign = {**sent, "Origin": "https://evil.example"}
        assert (await page.get("/about.json", **foreign))[0] == 403
        async with page.browser.options(page.base + "/about.json", headers=foreign) as answer:
            assert answer.status == 403
            assert [each for each in answer.headers if each.startswith("Access-Control")] == []
        found = await world.reader.client.get(CLUSTER_QUEUES, queue["name"])
        assert found["spec"].get("stopPolicy", "None") == "None"
        renewed = bearer(await renew(world, "ops"))
        assert (await page.post("/actions.json", body, **{**whole, **renewed}))[0] == 200
        found = await world.reader.client.get(CLUSTER_QUEUES, queue["name"])
        assert found["spec"]["stopPolicy"] == "Hold"


async def test_a_login_ends_with_its_token_and_when_it_is_revoked() -> None:
    async with proxied() as (world, page):
        sent = bearer(await world.token("ops", "cluster-admin", everywhere=True))
        late = bearer(await world.token("late", "cluster-admin", everywhere=True))
        paths = (f"{FLEET}/totals", f"{FLEET}/feeds?watch=1&topics=totals", "/usage.json")
        assert (await page.get("/about.json", **sent))[0] == 200
        await world.reader.client.delete(SERVICE_ACCOUNTS, "ops", namespace=world.reader.namespace)
        for path in paths:
            assert (await page.get(path, **sent))[0] == 401, path
        world.clock.ahead = timedelta(minutes=59, seconds=57)  # of the hour of the token
        feed = page.browser.get(page.base + paths[1], headers={**STREAM, **late})
        async with feed as answer, asyncio.timeout(20):
            text = (await answer.read()).decode()
        assert 'event: end\ndata: {"code":"expired"' in text
        assert (await page.get("/about.json", **late))[0] == 401
