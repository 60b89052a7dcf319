"""The dashboard behind a proxy that logs its readers in, below a path that it strips or not."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.resources import CLUSTER_QUEUES, SERVICE_ACCOUNTS
from multiqueue.kube.tls import load_key_pair
from tests.browser.conftest import Look, open_look
from tests.browser.test_login import ManagerThread

pytestmark = pytest.mark.browser

BASE = "/queue"
SESSION = "proxy-session"
TLS_SECONDS = 0.5
"""How long the proxy waits for the begin and the end of a TLS connection."""

WATCH = """() => {
  window.seen = [];
  const light = () => document.querySelector(".light")?.textContent;
  const look = () => seen.push(light(), document.body.className);
  const all = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver(look).observe(document.body, all);
}"""
"""Remember all states of the light, and whether the page was grey."""

ATTACK = """async ([base, asked]) => {
  const body = JSON.stringify(asked);
  const whatifs = "/apis/fleet.multiqueue.dev/v1alpha1/whatifs";
  const action = { "X-Multiqueue-Action": "guessed", "Content-Type": "application/json" };
  const attempts = [
    [base + "/actions.json", { mode: "no-cors", method: "POST", body }],
    [base + "/about.json", { mode: "no-cors" }],
    [base + "/usage.csv", { mode: "no-cors" }],
    [base + whatifs, { mode: "no-cors", method: "POST", body }],
    [base + "/about.json", {}],
    [base + "/actions.json", { method: "POST", body, headers: action }],
  ];
  const results = [];
  for (const [where, how] of attempts) {
    const sent = fetch(where, { credentials: "include", ...how });
    results.push(await sent.then((answer) => answer.type, (error) => error.name));
  }
  const form = document.createElement("form");
  Object.assign(form, { method: "POST", action: base + "/actions.json", enctype: "text/plain" });
  document.body.append(form);
  form.submit();
  return results;
}"""
"""What a script of another web site can try with the cookies of its reader."""


class FrontProxy:
    """Asks for a login at another host, keeps a cookie, and passes on the token of its user.

    Args:
        target: The port of the dashboard.
        strips: Whether the dashboard is asked for paths without `BASE`.
    """

    def __init__(self, target: int, *, strips: bool) -> None:
        self._target = f"https://127.0.0.1:{target}"
        self.strips = strips
        self.token = ""
        self.sessions = {"first"}
        """The values of the cookie that are valid; the login gives the last one."""
        self.logins = 0
        self.answered: list[tuple[str, str, int]] = []
        """Method, path and status of what the dashboard was asked for."""
        self.port = self.other_port = 0
        """That of the dashboard, and one that is another origin for a browser, not another site."""

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[None]:
        now = SystemClock().now()
        authority = create_authority("proxy", now)
        pair = issue_certificate(authority, "proxy", ["127.0.0.1", "localhost"], now)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        load_key_pair(context, pair.certificate, pair.key)
        async with aiohttp.ClientSession(auto_decompress=False) as self._client:
            server = web.Server(self._answer, handler_cancellation=True)
            limits = {"ssl_handshake_timeout": TLS_SECONDS, "ssl_shutdown_timeout": TLS_SECONDS}
            listeners = [
                await asyncio.get_running_loop().create_server(
                    server, "127.0.0.1", 0, ssl=context, **limits
                )
                for _ in range(2)
            ]
            self.port, self.other_port = (
                listener.sockets[0].getsockname()[1] for listener in listeners
            )
            yield
            for listener in listeners:
                listener.close()
            await server.shutdown(TLS_SECONDS)
            # A browser opens connections that it does not use; they end by the time limits.
            await asyncio.sleep(3 * TLS_SECONDS)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/login":  # of another host: it is the provider, which knows the user
            self.logins += 1
            back = f"https://127.0.0.1:{self.port}/back?to={request.query['to']}"
            return web.Response(status=302, headers={"Location": back})
        if request.path == "/favicon.ico":  # of what is not our page
            return web.Response(status=204)
        if request.path == "/evil":
            return web.Response(text="<p>Win a GPU</p>", content_type="text/html")
        if request.path == "/back":
            answer = web.Response(status=302, headers={"Location": request.query["to"]})
            value = max(self.sessions)
            answer.set_cookie(SESSION, value, secure=True, httponly=True, samesite="Lax")
            return answer
        if request.cookies.get(SESSION) not in self.sessions:
            there = f"https://localhost:{self.port}/login?to={request.path}"
            return web.Response(status=302, headers={"Location": there})
        if not request.path.startswith(BASE):
            return web.Response(status=404, text="another program")
        return await self._pass_on(request)

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        path = str(request.rel_url).removeprefix(BASE if self.strips else "")
        headers = {**request.headers, "Authorization": f"Bearer {self.token}"}
        asked = self._client.request(
            request.method,
            self._target + path,
            headers=headers,
            data=await request.read(),
            ssl=False,
            allow_redirects=False,
        )
        async with asked as got:
            self.answered.append((request.method, path, got.status))
            answer = web.StreamResponse(status=got.status, headers=got.headers)
            with suppress(ConnectionError):
                await answer.prepare(request)
                async for chunk in got.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
        return answer


@pytest.fixture(scope="module")
def manager() -> Iterator[ManagerThread]:
    with ManagerThread(url=f"https://example.com{BASE}", auth={"mode": "Proxy"}) as thread:
        yield thread


@pytest.fixture(params=[True, False], ids=["stripped", "not stripped"])
def proxy(request: pytest.FixtureRequest, manager: ManagerThread) -> Iterator[FrontProxy]:
    front = FrontProxy(manager.world.port, strips=request.param)
    served = front.serve()
    manager.call(served.__aenter__())
    yield front
    manager.call(served.__aexit__(None, None, None))


def open_behind(proxy: FrontProxy, browser: Any, page: str) -> Iterator[Look]:
    """Open a page as a reader who is not logged in at the proxy."""
    address = f"https://127.0.0.1:{proxy.port}{BASE}{page}"
    looks = open_look(browser, address, ignore_https_errors=True)
    look = next(looks)
    yield look
    look.complaints[:] = [each for each in look.complaints if "status of 4" not in each]
    with pytest.raises(StopIteration):
        next(looks)


@pytest.fixture
def visitor(browser: Any, manager: ManagerThread, proxy: FrontProxy) -> Iterator[Look]:
    """A reader with all rights, at the address without its last slash."""
    name = f"ops-{proxy.port}"
    proxy.token = manager.token(name, "cluster-admin")
    yield from open_behind(proxy, browser, "#/jobs")


def hold(look: Look, manager: ManagerThread, button: str, want: str) -> None:
    """Take an action, and look whether it was done."""
    queue = manager.world.reader.asker.cluster_queue
    look.page.locator(".actions button", has_text=re.compile(f"^{button}$")).click()
    look.page.locator("form.confirm button.main").click()
    look.page.locator(".actions button", has_text=re.compile(f"^{want}$")).wait_for()
    found = manager.call(manager.world.reader.client.get(CLUSTER_QUEUES, queue))
    assert found["spec"]["stopPolicy"] == {"Hold": "Hold", "Resume": "None"}[button]


def test_whom_the_proxy_logged_in_is_asked_for_nothing(
    visitor: Look, manager: ManagerThread, proxy: FrontProxy
) -> None:
    page = visitor.page
    page.locator(".grid tbody a").first.wait_for()
    page.locator(".light.good").wait_for()
    assert (proxy.logins, page.get_by_text("Log in").count()) == (1, 0)
    assert page.get_by_text("Log out").count() == 0, "the proxy has that"
    page.get_by_text(f"ops-{proxy.port}").wait_for()
    visitor.picture(f"proxy-jobs-{proxy.strips}")
    assert page.get_by_text("You may not see all namespaces").count() == 0
    visitor.open(page.locator(".grid tbody a").first.get_attribute("href"), "Cancel job")
    queue = manager.world.reader.asker.cluster_queue
    visitor.open(f"#/queues/{queue}", "Who waits, in order")
    hold(visitor, manager, "Hold", "Resume")
    hold(visitor, manager, "Resume", "Hold")
    for name, words in (("usage", "Nothing was reserved"), ("what-if", "What if")):
        visitor.open(f"#/{name}", words)
    page.get_by_role("link", name="Fleet", exact=True).click()
    page.locator(".light.good").wait_for()
    assert page.url == f"https://127.0.0.1:{proxy.port}{BASE}/#/fleet"
    got = page.evaluate(
        "async (p) => { const a = await fetch(p); return [a.status, await a.text()]; }",
        f"{BASE}/usage.csv",
    )
    assert (got[0], "reserved" in got[1]) == (200, True)


def test_another_origin_can_use_the_cookie_of_the_proxy_for_nothing(
    visitor: Look, manager: ManagerThread, proxy: FrontProxy
) -> None:
    page = visitor.page
    page.locator(".light.good").wait_for()
    queue = manager.world.reader.asker.cluster_queue
    asked = {"kind": "clusterqueues", "name": queue, "verb": "hold", "state": "None"}
    page.goto(f"https://127.0.0.1:{proxy.other_port}/evil")
    proxy.answered.clear()
    results = page.evaluate(ATTACK, [f"https://127.0.0.1:{proxy.port}{BASE}", asked])
    assert results == ["opaque"] * 4 + ["TypeError"] * 2
    page.wait_for_url(re.compile(r"/actions\.json"))
    assert len(proxy.answered) >= 5, "the browser sent its cookie, and the proxy passed on"
    assert {status for _, _, status in proxy.answered} == {403}
    found = manager.call(manager.world.reader.client.get(CLUSTER_QUEUES, queue))
    assert found["spec"].get("stopPolicy", "None") == "None"
    visitor.complaints.clear()  # the browser itself says what it refused


def test_a_login_that_ended_at_the_proxy_is_renewed_in_a_new_tab_and_nothing_typed_is_lost(
    visitor: Look, manager: ManagerThread, proxy: FrontProxy
) -> None:
    page = visitor.page
    page.locator(".light.good").wait_for()
    visitor.open("#/queues/" + manager.world.reader.asker.cluster_queue, "Who waits, in order")
    page.locator(".actions button", has_text="Hold and stop jobs").click()
    page.get_by_label("To confirm, type its name").fill("half of a na")
    proxy.sessions = {"second"}
    page.evaluate("() => dispatchEvent(new Event('ended'))")  # as any question does that meets it
    page.get_by_text("Your login has ended.").wait_for()
    page.locator(".stale").wait_for()
    visitor.picture(f"proxy-ended-{proxy.strips}")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Log in, in a new tab").click()
    opened.value.locator(".light.good").wait_for()
    assert proxy.logins == 2
    opened.value.close()
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")  # headless
    page.locator(".light.good").wait_for()
    page.locator(".stale").wait_for(state="detached")
    assert page.get_by_label("To confirm, type its name").input_value() == "half of a na"


def count_feeds(proxy: FrontProxy) -> int:
    """Return how many streams of the page have begun."""
    return sum("/feeds" in path and status == 200 for _, path, status in proxy.answered)


def test_a_token_that_the_proxy_renews_is_not_noticed(
    visitor: Look, manager: ManagerThread, proxy: FrontProxy
) -> None:
    page, world = visitor.page, manager.world
    page.locator(".light.good").wait_for()
    about = "async () => { const a = await fetch('about.json'); return await a.json(); }"
    before = page.evaluate(about)
    page.evaluate(WATCH)
    feeds = count_feeds(proxy)
    name = f"ops-{proxy.port}"
    where = {"namespace": world.reader.namespace}
    manager.call(world.reader.client.delete(SERVICE_ACCOUNTS, name, **where))
    proxy.token = manager.token(name, "")  # the role is still bound to the name
    for _ in range(600):
        if count_feeds(proxy) > feeds:
            break
        page.wait_for_timeout(100)
    assert count_feeds(proxy) > feeds, "the stream ended with the old token, and another one began"
    page.wait_for_timeout(500)  # what it brings is drawn
    page.locator(".light.good").wait_for()
    seen = page.evaluate("() => window.seen")
    assert "stale" not in seen
    assert page.get_by_text("Your login has ended.").count() == 0
    assert page.evaluate(about) == before


def test_a_proxy_that_passes_no_valid_token_on_is_told_so(
    browser: Any, manager: ManagerThread, proxy: FrontProxy
) -> None:
    proxy.token = "unknown"
    for look in open_behind(proxy, browser, "/"):
        look.page.get_by_text("issuer and audience the API server trusts").wait_for()
        assert look.page.get_by_label("Token").count() == 0
        look.picture(f"proxy-unknown-{proxy.strips}")
        proxy.token = manager.token(f"late-{proxy.port}", "cluster-admin")
        look.page.get_by_role("button", name="Try again").click()
        look.page.locator(".light.good").wait_for()


def test_a_reader_of_one_namespace_enters_it_once(
    browser: Any, manager: ManagerThread, proxy: FrontProxy
) -> None:
    """A user of the provider has no namespace; here it is a service account of another one."""
    world = manager.world
    name = f"ada-{proxy.port}"
    proxy.token = manager.token(name, "view", everywhere=False)
    for look in open_behind(proxy, browser, "/#/jobs"):
        page = look.page
        box = page.get_by_label("You may not see all namespaces")
        box.wait_for()
        assert box.input_value() == world.reader.namespace
        box.fill("elsewhere")
        box.press("Enter")
        page.get_by_text("No right to see this").first.wait_for()
        look.picture(f"proxy-namespace-{proxy.strips}")
        box.fill(world.reader.namespace)
        page.get_by_role("button", name="Show", exact=True).click()
        page.locator(".grid tbody a").first.wait_for()
        page.reload()
        page.locator(".grid tbody a").first.wait_for()
