"""The listener on this machine: the key, what is forwarded, and how errors come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import orjson
from aiohttp.test_utils import make_mocked_request

from multiqueue.dashboard.door import Door
from multiqueue.dashboard.gateway import Gateway
from multiqueue.dashboard.page_answers import ACTIONS, PageAnswers, PageReader
from multiqueue.kube.client import KubeClient, ObjectList
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.errors import ApiError, Forbidden, TransportError
from multiqueue.kube.resources import WORKLOADS, Resource
from multiqueue.kube.transport import Response
from multiqueue.serving.request import HttpRequest

JSON = "application/json"
FLEET = "/apis/fleet.multiqueue.dev/v1alpha1"


class PlayedClient:
    """A client of a cluster that answers as told; `asked` are its requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.failure: Exception | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        accept: str = "",
        body: Any = None,
        timeout: float = 0,
    ) -> Response:
        del timeout
        asked = {**(params or {}), "accept": accept} if method == "GET" else {method: body}
        self.asked.append((path, asked))
        if self.failure is not None:
            raise self.failure
        return Response(200, {}, b'{"items":[]}')

    async def list(self, resource: Resource, **_: Any) -> ObjectList[Any]:
        self.asked.append((resource.plural, {}))
        if self.failure is not None:
            raise self.failure
        return ObjectList(items=[], resource_version="1")

    async def stream(self, path: str, *, headers: dict[str, str]) -> AsyncGenerator[bytes, None]:
        self.asked.append((path, headers))
        yield b""
        yield b"event: hello\n\n"


@asynccontextmanager
async def open_page(
    client: PlayedClient, *, read_only: bool = False
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A browser that opened the printed address, and the address of the page."""
    jar = aiohttp.CookieJar(unsafe=True)  # it has no cookies of IP addresses otherwise
    async with (
        Gateway(cast("KubeClient", client), {"demo": True}, read_only=read_only) as gateway,
        aiohttp.ClientSession(cookie_jar=jar) as browser,
    ):
        base = gateway.address.partition("/?")[0]
        async with browser.get(gateway.address) as answer:
            assert (answer.status, answer.url.query_string) == (200, "")
        yield browser, base


async def test_the_page_and_its_questions_need_the_cookie() -> None:
    client = PlayedClient()
    async with open_page(client) as (browser, base):
        async with browser.get(f"{base}{FLEET}/totals?limit=5") as answer:
            assert await answer.json() == {"items": []}
            assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["Cache-Control"] == "no-store"
        assert client.asked == [(f"{FLEET}/totals", {"limit": "5", "accept": "*/*"})]
        async with aiohttp.ClientSession() as stranger, stranger.get(base + "/") as refused:
            assert refused.status == 403
            assert "key" in (await refused.json())["message"]


async def test_the_feed_is_passed_on_as_it_comes_with_the_place_to_resume_at() -> None:
    client = PlayedClient()
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "a.1"}
    async with (
        open_page(client) as (browser, base),
        browser.get(f"{base}{FLEET}/feeds?topics=totals", headers=headers) as answer,
    ):
        assert await answer.read() == b"event: hello\n\n"
        assert answer.content_type == "text/event-stream"
    assert client.asked == [(f"{FLEET}/feeds?topics=totals", headers)]


async def test_nothing_but_the_list_is_forwarded_and_nothing_is_written() -> None:
    client = PlayedClient()
    async with open_page(client) as (browser, base):
        async with browser.get(f"{base}/api/v1/secrets") as answer:
            assert answer.status == 404
        async with browser.post(f"{base}{FLEET}/totals") as answer:
            assert answer.status in {405, 413}
        async with browser.head(f"{base}{FLEET}/feeds?watch=1&topics=totals") as answer:
            assert answer.status == 405, "a stream behind a HEAD would be read as the next answer"
        async with browser.get(f"{base}/about.json") as answer:
            about = orjson.loads(await answer.read())
            assert (about.pop("demo"), list(about)) == (True, ["action"])
    assert client.asked == []


async def test_refusals_and_silence_of_the_api_server_are_told_in_its_words() -> None:
    client = PlayedClient()
    client.failure = ApiError(403, reason="Forbidden", message="quotas is forbidden")
    async with open_page(client) as (browser, base):
        async with browser.get(f"{base}{FLEET}/quotas") as answer:
            told: dict[str, Any] = await answer.json()
            assert (answer.status, told["message"]) == (403, "quotas is forbidden")
        client.failure = TransportError("connection refused")
        async with browser.get(f"{base}{FLEET}/quotas") as answer:
            assert answer.status == 502
            assert "connection refused" in (await answer.json())["message"]


async def test_usage_is_what_the_reader_may_list_as_a_document_and_as_a_file() -> None:
    client = PlayedClient()
    async with open_page(client) as (browser, base):
        async with browser.get(f"{base}/usage.json?month=2026-02") as answer:
            told = await answer.json()
            assert (told["month"], told["days"], told["rows"]) == ("2026-02", 28, [])
        async with browser.get(f"{base}/usage.csv?month=2026-02&by=queue") as answer:
            assert (await answer.text()).startswith("from,to,cluster_queue,resource,holds,")
            named = 'attachment; filename="usage-2026-02-by-queue.csv"'
            assert answer.headers["Content-Disposition"] == named
        assert {name for name, _ in client.asked} == {"usagereports", "workloads", "namespaces"}
        async with browser.get(f"{base}/usage.json?by=%0d%0aX") as answer:
            assert answer.status == 400
            assert "choose from owner" in (await answer.json())["message"]
        client.failure = Forbidden(403, reason="Forbidden", message="usagereports is forbidden")
        async with browser.get(f"{base}/usage.json") as answer:
            assert (answer.status, (await answer.json())["message"]) == (
                403,
                "usagereports is forbidden",
            )
        async with aiohttp.ClientSession() as stranger:
            for name in ("usage.json", "usage.csv"):
                async with stranger.get(f"{base}/{name}") as refused:
                    assert refused.status == 403


async def test_a_what_if_is_the_only_question_with_a_body_and_only_this_page_asks_it() -> None:
    client = PlayedClient()
    question = {"spec": {"changes": ["hold cq/a"]}}
    path = f"{FLEET}/whatifs"
    async with open_page(client) as (browser, base):
        mine = {"Origin": base}

        async def post(where: str, **options: Any) -> int:
            async with browser.post(base + where, **options) as answer:
                return answer.status

        assert await post(path, json=question, headers=mine) == 200
        assert client.asked == [(path, {"POST": question})]
        assert await post(path, json=question) == 403
        assert await post(path, json=question, headers={"Origin": "http://evil"}) == 403
        assert await post(path, data=b"{}", headers={**mine, "Content-Type": "text/plain"}) == 403
        assert await post(path, data={"spec": "1"}, headers=mine) == 403
        headers = {**mine, "Content-Type": "application/json"}
        assert await post(path, data=b"{", headers=headers) == 400
        assert await post(path, data=b"1" * 70_000, headers=headers) == 413
        for other in ("standings", "whatifs/a", "namespaces/a/standings", "../../v1/pods"):
            assert await post(f"{FLEET}/{other}", json=question, headers=mine) in {404, 405}
        assert await post("/apis/batch/v1/namespaces/a/jobs", json={}, headers=mine) == 405
        assert len(client.asked) == 1
        client.failure = ApiError(429, reason="TooManyRequests", message="one at a time")
        assert await post(path, json=question, headers=mine) == 429
        async with (
            aiohttp.ClientSession() as stranger,
            stranger.post(base + path, json=question, headers=mine) as refused,
        ):
            assert refused.status == 403


async def test_an_action_needs_each_sign_that_this_page_sends_it() -> None:
    client = PlayedClient()
    asked = {"kind": "clusterqueues", "name": "cq", "verb": "hold"}
    async with open_page(client) as (browser, base):
        async with browser.get(f"{base}/about.json") as about:
            action = (await about.json())["action"]
        signs = {"Origin": base, "X-Multiqueue-Action": action}
        body = {"data": orjson.dumps(asked), "headers": {**signs, "Content-Type": JSON}}

        async def send(method: str = "POST", **changed: Any) -> int:
            headers = {**body["headers"], **changed.pop("headers", {})}
            known = {name: value for name, value in headers.items() if value}
            whole = {**body, **changed, "headers": known}
            async with browser.request(method, f"{base}/actions.json", **whole) as answer:
                return answer.status

        for name, values in {
            "Origin": ("", "http://evil", "null", base.replace("http:", "https:")),
            "X-Multiqueue-Action": ("", "guessed", f"{action}x", "ÿ"),
            "Content-Type": ("text/plain", "application/x-www-form-urlencoded"),
            "Host": ("evil.example", "127.0.0.1:1"),
            "Sec-Fetch-Site": ("cross-site", "same-site"),
        }.items():
            for value in values:
                assert await send(headers={name: value}) == 403, (name, value)
        for method in ("PUT", "PATCH", "DELETE"):
            assert await send(method) == 405
        async with (
            aiohttp.ClientSession() as stranger,
            stranger.post(f"{base}/actions.json", **body) as refused,
        ):
            assert refused.status == 403, "it has all but the cookie"
        assert await send(data=b"[]") == 400
        assert await send(data=b"1" * 70_000) == 413
        assert client.asked == [], "nothing was sent to the API server"


async def test_a_page_that_only_reads_has_no_actions() -> None:
    client = PlayedClient()
    async with open_page(client, read_only=True) as (browser, base):
        async with browser.get(f"{base}/about.json") as about:
            assert await about.json() == {"demo": True}
        headers = {"Origin": base, "X-Multiqueue-Action": "", "Content-Type": JSON}
        async with browser.post(f"{base}/actions.json", data=b"{}", headers=headers) as refused:
            assert refused.status == 403
        async with browser.get(f"{base}/actions.json?kind=clusterqueues&name=cq") as missing:
            assert missing.status == 404
        assert client.asked == []


class CountedClient(PlayedClient):
    """A client that is slow; `most` is how many lists of Workloads were read at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = self.most = self.lists = 0

    async def get(self, resource: Resource, name: str, **_: Any) -> Any:
        del resource
        return {"metadata": {"name": name, "uid": "u"}, "spec": {}}

    async def create(self, *_: Any) -> Any:
        return {"status": {"allowed": True}}

    async def list(self, resource: Resource, **more: Any) -> ObjectList[Any]:
        if resource is WORKLOADS:
            self.reading, self.lists = self.reading + 1, self.lists + 1
            self.most = max(self.most, self.reading)
            for _ in range(100):
                await asyncio.sleep(0)
            self.reading -= 1
        return await super().list(resource, **more)


async def test_the_workloads_of_a_fleet_are_read_for_one_answer_at_a_time() -> None:
    client = CountedClient()
    answers = PageAnswers(SystemClock(), Door(0))
    reader = PageReader(client=cast("KubeClient", client), about={}, action="sign")
    paths = ["/usage.json", "/usage.csv", f"{ACTIONS}?kind=clusterqueues&name=cq&verb=stop"]
    asked = [cast("HttpRequest", make_mocked_request("GET", path)) for path in paths * 2]
    found = await asyncio.gather(*(answers.answer(each, reader) for each in asked))
    assert [each.status for each in found] == [200] * 6
    assert (client.lists, client.most) == (6, 1)
