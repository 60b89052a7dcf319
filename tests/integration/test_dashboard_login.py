"""The dashboard beside the manager: who gets in, what they see, and how it ends."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import orjson
import pytest

from multiqueue.dashboard.reader_clients import ReaderClients, without_identity
from multiqueue.dashboard.sealing import NAMES
from multiqueue.dashboard.service import DashboardService
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import ApiError
from multiqueue.kube.resources import CLUSTER_QUEUES, NAMESPACES, SERVICE_ACCOUNTS
from multiqueue.runtime.components import innermost
from multiqueue.runtime.manager import Manager
from multiqueue.visibility.fleet.resources import BY_PLURAL
from multiqueue.visibility.fleet.service import MAX_PROXIED, MAX_STREAMS_OF_A_USER
from tests.integration.test_dashboard_actions import bind
from tests.integration.test_fleet_api import FLEET, Reader, waiting
from tests.integration.test_runtime_manager import make_config, running

STREAM = {"Accept": "text/event-stream"}


class ShiftedClock:
    """The machine's clock, and how far it is ahead."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return SystemClock().now() + self.ahead


@dataclass
class Page:
    """A browser at the dashboard."""

    browser: aiohttp.ClientSession
    base: str

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.browser.get(self.base + path, headers=headers) as answer:
            body = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, orjson.loads(body) if is_json else body

    async def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {"Origin": self.base, "Content-Type": "application/json", **headers}
        known = {name: value for name, value in sent.items() if value}
        data = orjson.dumps({} if body is None else body)
        async with self.browser.post(self.base + path, data=data, headers=known) as answer:
            return answer.status, await answer.json()

    async def log_in(self, token: str, **more: str) -> tuple[int, Any]:
        return await self.post("/login", {"token": token, **more})


@dataclass
class LoginWorld:
    """A cluster with two waiting jobs, its manager, and the dashboard beside it."""

    reader: Reader
    clock: ShiftedClock
    port: int
    stack: AsyncExitStack

    async def open(self, *, host: str = "127.0.0.1") -> Page:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        browser = aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            connector=aiohttp.TCPConnector(ssl=context),
        )
        await self.stack.enter_async_context(browser)
        return Page(browser, f"https://{host}:{self.port}")

    async def token(self, name: str, role: str = "", *, everywhere: bool = False) -> str:
        """What `kubectl create token` prints, for an account with a role in its namespace."""
        client, namespace = self.reader.client, self.reader.namespace
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        await client.create(SERVICE_ACCOUNTS, account, namespace=namespace)
        if role:
            user = f"system:serviceaccount:{namespace}:{name}"
            binding = bind(role, user, "" if everywhere else namespace)
            binding["metadata"]["name"] = f"{role}-{name}"
            where = f"/namespaces/{namespace}" if not everywhere else ""
            kind = "clusterrolebindings" if everywhere else "rolebindings"
            path = f"/apis/rbac.authorization.k8s.io/v1{where}/{kind}"
            await client.request("POST", path, body=binding)
        path = SERVICE_ACCOUNTS.path(namespace, name, "token")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await client.request("POST", path, body=asked)
        token: str = orjson.loads(answer.body)["status"]["token"]
        return token


@asynccontextmanager
async def login_world(**dashboard: Any) -> AsyncIterator[LoginWorld]:
    async with waiting("one", "two") as reader, AsyncExitStack() as stack:
        manager = reader.manager
        clock = ShiftedClock()
        context: Any = SimpleContext(make_config(dashboard={**ON, **dashboard}), clock)
        assert manager.visibility is not None
        service = DashboardService(
            context, reader.asker.credentials, manager.visibility, ("127.0.0.1", 0)
        )
        async with running(service):
            await service.serving.wait()
            yield LoginWorld(reader, clock, service.port, stack)


@dataclass
class SimpleContext:
    """The parts of a manager's context that the dashboard uses."""

    config: Any
    clock: ShiftedClock
    drain_seconds: float = 0.0


ON = {"bindAddress": "127.0.0.1:0", "url": "https://queue.example.com"}


async def test_a_reader_logs_in_sees_what_the_rights_allow_and_logs_out() -> None:
    async with login_world() as world:
        page = await world.open()
        everything = await world.token("ops", "cluster-admin", everywhere=True)
        assert (await page.get("/"))[0] == 200, "the page itself has nothing of the cluster"
        for path in ("/about.json", f"{FLEET}/totals", "/usage.json", "/actions.json"):
            assert (await page.get(path))[0] == 401, path
        assert await page.log_in(everything) == (200, {})
        status, about = await page.get("/about.json")
        namespace = world.reader.namespace
        reader = f"system:serviceaccount:{namespace}:ops"
        assert (status, about["login"]["reader"], about["namespace"]) == (200, reader, namespace)
        status, found = await page.get(f"{FLEET}/standings")
        assert (status, len(found["items"])) == (200, 2)
        assert (await page.get("/api/v1/secrets"))[0] == 404
        assert (await page.get(f"{FLEET}/../../../api/v1/secrets"))[0] == 404
        assert (await page.post("/logout"))[0] == 403, "another site cannot log a reader out"
        sign = {"X-Multiqueue-Action": about["action"]}
        assert (await page.post("/logout", **sign))[0] == 200
        assert (await page.get("/about.json"))[0] == 401


async def test_a_reader_of_one_namespace_sees_only_that() -> None:
    async with login_world() as world:
        page = await world.open()
        token = await world.token("viewer", "view")
        other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        await world.reader.client.create(NAMESPACES, other)
        assert (await page.log_in(token))[0] == 200
        status, found = await page.get(f"{FLEET}/namespaces/{world.reader.namespace}/standings")
        assert (status, len(found["items"])) == (200, 2)
        for path in ("standings", "quotas", "namespaces/other/standings", "workers", "changes"):
            assert (await page.get(f"{FLEET}/{path}"))[0] == 403, path
        target = f"kind=clusterqueues&name={world.reader.asker.cluster_queue}"
        assert await page.get(f"/actions.json?{target}") == (200, {"actions": []})


READERS = {
    "nobody": ("", False),
    "viewer": ("view", False),
    "owner": ("admin", False),
    "watcher": ("view", True),
    "admin": ("cluster-admin", True),
}


async def test_every_path_answers_a_reader_as_the_api_server_does() -> None:
    async with login_world() as world:
        space = f"/namespaces/{world.reader.namespace}"
        names = [name for name in BY_PLURAL if name != "feeds"]  # a stream
        paths = [f"{FLEET}{where}/{name}" for name in names for where in ("", space)]
        codes = {}
        for name, (role, everywhere) in READERS.items():
            page, token = await world.open(), await world.token(name, role, everywhere=everywhere)
            await page.log_in(token)
            credentials = world.reader.asker.credentials
            header, trust = {"Authorization": f"Bearer {token}"}, credentials.ssl_context
            for path in paths:
                url = credentials.server + path
                async with page.browser.get(url, headers=header, ssl=trust) as direct:
                    want = direct.status, (await direct.json()).get("message")
                status, told = await page.get(path)
                assert (status, told.get("message")) == want, (name, path)
                codes[name] = codes.get(name, Counter()) + Counter([status])
        assert codes["nobody"][200] == 0
        assert 0 < codes["viewer"][200] < codes["watcher"][200] <= codes["admin"][200]


async def test_an_action_is_made_with_the_token_of_its_reader() -> None:
    async with login_world() as world:
        queue = {"kind": "clusterqueues", "name": world.reader.asker.cluster_queue}
        codes = []
        for name, role in (("ops", "cluster-admin"), ("guest", "view")):
            page = await world.open()
            await page.log_in(await world.token(name, role, everywhere=True))
            action = (await page.get("/about.json"))[1]["action"]
            client = world.reader.client
            seen = (await client.get(CLUSTER_QUEUES, queue["name"]))["metadata"]["uid"]
            state = {"ops": "None", "guest": "Hold"}[name]
            body = {**queue, "verb": "hold", "uid": seen, "state": state}
            assert (await page.post("/actions.json", body))[0] == 403, "without the sign"
            sign = {"X-Multiqueue-Action": action}
            codes.append((await page.post("/actions.json", body, **sign))[0])
        assert codes == [200, 403]
        found = await world.reader.client.get(CLUSTER_QUEUES, queue["name"])
        assert found["spec"]["stopPolicy"] == "Hold"
        changes = [each["status"] for each in (await world.reader.read("/changes"))["items"]]
        (told,) = [each for each in changes if each["by"]]
        ops = f"system:serviceaccount:{world.reader.namespace}:ops"
        assert (told["kind"], told["object"]) == ("ClusterQueue", queue["name"])
        assert (told["action"], told["by"]) == ("hold", ops), "S-39: what was refused is no change"


async def test_wrong_tokens_are_refused_and_soon_not_even_asked_about() -> None:
    async with login_world() as world:
        page = await world.open()
        for number in range(5):
            status, told = await page.log_in(f"wrong{number}")
            assert (status, "does not know this token" in told["message"]) == (401, True)
        status, told = await page.log_in("wrong")
        assert (status, told["message"][:42]) == (429, "5 wrong tokens came from your address; try")
        assert (await page.get("/about.json"))[0] == 401


async def test_other_web_sites_cannot_log_anybody_in() -> None:
    async with login_world() as world:
        page = await world.open()
        token = await world.token("ops")
        for name, values in {
            "Origin": ("https://evil.example", "null", "", page.base.replace("https:", "http:")),
            "Host": ("evil.example", "queue.example.com.evil.example"),
            "Sec-Fetch-Site": ("cross-site", "same-site"),
            "Content-Type": ("text/plain", "application/x-www-form-urlencoded"),
        }.items():
            for value in values:
                status, _ = await page.post("/login", {"token": token}, **{name: value})
                assert (status, len(page.browser.cookie_jar)) == (403, 0), (name, value)
        assert (await page.get("/login"))[0] == 401
        proxied = {"Host": "queue.example.com:80", "Origin": "https://queue.example.com"}
        assert (await page.post("/login", {"token": token}, **proxied))[0] == 200


async def test_the_host_is_known_by_the_configuration_and_named_if_it_is_not() -> None:
    async with login_world() as world:
        page = await world.open()
        for host in ("queue.example.com", "QUEUE.example.com:443", "localhost:8444", "[::1]:1"):
            assert (await page.get("/", Host=host))[0] == 200, host
        for host in ("evil.example", "queue.example.com@evil.example", "evil.example:443"):
            status, told = await page.get("/", Host=host)
            assert (status, "dashboard.url" in told["message"]) == (403, True), host
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert (await page.get("/", **link))[0] == 200, "a link of a chat leads to the page"
        assert (await page.get("/about.json", **link))[0] == 403


async def test_a_session_ends_when_its_token_is_revoked_and_when_its_time_is_over() -> None:
    async with login_world() as world:
        page = await world.open()
        token = await world.token("ops", "cluster-admin", everywhere=True)
        await page.log_in(token)
        assert (await page.get(f"{FLEET}/totals"))[0] == 200
        client = world.reader.client
        await client.delete(SERVICE_ACCOUNTS, "ops", namespace=world.reader.namespace)
        for path in (f"{FLEET}/totals", f"{FLEET}/feeds?watch=1&topics=totals", "/usage.json"):
            assert (await page.get(path))[0] == 401, path
        page = await world.open()
        await page.log_in(await world.token("late", "cluster-admin", everywhere=True))
        world.clock.ahead = timedelta(hours=12)
        for path in ("/about.json", f"{FLEET}/totals"):
            assert await page.get(path) == await (await world.open()).get(path)


async def test_cookies_that_were_not_made_here_open_nothing() -> None:
    async with login_world() as world:
        page = await world.open()
        await page.log_in(await world.token("ops"))
        (cookie,) = page.browser.cookie_jar
        assert (cookie.key, cookie["httponly"], cookie["secure"]) == (NAMES[0], True, True)
        async with aiohttp.ClientSession(connector=page.browser.connector) as other:
            stranger = Page(other, page.base)
            whole = f"{cookie.key}={cookie.value}"
            assert (await stranger.get("/about.json", Cookie=whole))[0] == 200
            altered = cookie.value[:50] + ("A" if cookie.value[50] != "A" else "B")
            for value in (altered + cookie.value[51:], cookie.value[:-8], "", "x" * 4000):
                header = f"{cookie.key}={value}"
                status, told = await stranger.get("/about.json", Cookie=header)
                assert (status, told["message"]) == (401, "Unauthorized")


async def test_a_feed_is_the_readers_and_says_when_the_session_is_over() -> None:
    async with login_world() as world:
        page = await world.open()
        await page.log_in(await world.token("ops", "cluster-admin", everywhere=True))
        world.clock.ahead = timedelta(minutes=59, seconds=57)  # of the hour of the token
        path = f"{page.base}{FLEET}/feeds?watch=1&topics=totals"
        async with page.browser.get(path, headers=STREAM) as answer, asyncio.timeout(20):
            text = (await answer.read()).decode()
        assert '"reader":"system:serviceaccount:' in text
        assert text.endswith('valid any more"}\n\n')
        assert 'event: end\ndata: {"code":"expired"' in text


async def test_feeds_of_the_listener_are_not_those_that_an_api_server_carries() -> None:
    async with login_world() as world, AsyncExitStack() as stack:
        path = f"{FLEET}/feeds?watch=1&topics=totals"
        for number in range(MAX_PROXIED // MAX_STREAMS_OF_A_USER + 1):
            page = await world.open()
            token = await world.token(f"ops{number}", "cluster-admin", everywhere=True)
            await page.log_in(token)
            for _ in range(MAX_STREAMS_OF_A_USER):
                answer = await stack.enter_async_context(
                    page.browser.get(page.base + path, headers=STREAM)
                )
                assert answer.status == 200
                assert (await answer.content.readline()).startswith(b"event: hello")
            async with page.browser.get(page.base + path, headers=STREAM) as answer:
                assert answer.status == 429, "S-22: so many of one reader"


async def test_without_a_token_a_request_has_no_rights_least_of_all_the_managers() -> None:
    async with waiting("one") as reader, ReaderClients(reader.asker.credentials) as clients:
        with pytest.raises(ApiError) as refused:
            await clients.open("wrong", "ada").get(CLUSTER_QUEUES, reader.asker.cluster_queue)
        assert refused.value.status == 401
        nobody = Credentials(without_identity(reader.asker.credentials.material))
        async with KubeClient(nobody) as client:
            with pytest.raises(ApiError, match="system:anonymous"):
                await client.get(CLUSTER_QUEUES, reader.asker.cluster_queue)


async def test_a_manager_serves_it_if_it_is_configured_and_says_why_it_cannot() -> None:
    async with waiting() as reader:
        manager = Manager(
            make_config(dashboard=ON, leaderElection={"leaderElect": False}),
            reader.asker.credentials,
        )
        async with running(manager):
            await manager.until_at_work()
            assert manager.dashboard is not None
            await manager.dashboard.serving.wait()
            port = manager.dashboard.port
            taken = make_config(dashboard={"bindAddress": f"127.0.0.1:{port}"})
            second = Manager(taken, reader.asker.credentials)
            async with running(second) as task:
                with pytest.raises(BaseException) as raised:
                    await task
                assert "dashboard.bindAddress: cannot listen on" in str(innermost(raised.value))


def test_off_means_that_it_is_not_even_imported() -> None:
    program = (
        "import sys, multiqueue.runtime.manager;"
        "print([name for name in sys.modules if name.startswith('multiqueue.dashboard')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"
