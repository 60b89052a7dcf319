from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from multiqueue.kube import errors
from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.credential_sources import Material
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import EVENTS, JOBS, LEASES, PODS, SECRETS, WORKLOADS
from tests.unit.kube.scripted_server import (
    Answer,
    ScriptedServer,
    drop,
    hang,
    html,
    json_answer,
    pod,
    pod_list,
    status,
    stream,
)
from tests.virtual_time import virtual_time


@virtual_time
async def test_an_object_is_read_with_our_name_and_token() -> None:
    async with (
        ScriptedServer(json_answer(pod("a", 1))) as server,
        server.client(user_agent="multiqueue/1.0") as client,
    ):
        got = await client.get(PODS, "a", namespace="team-a")
    assert got == pod("a", 1)
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("GET", "/api/v1/namespaces/team-a/pods/a")
    assert seen.headers["Authorization"] == "Bearer s3cret"
    assert seen.headers["User-Agent"] == "multiqueue/1.0"


@virtual_time
async def test_the_caller_chooses_what_bytes_become() -> None:
    async with ScriptedServer(json_answer({"a": 1})) as server, server.client() as client:
        assert await client.get(PODS, "a", namespace="n", decode=len) == len(b'{"a":1}')


@pytest.mark.parametrize(
    ("patch_type", "content_type"),
    [
        (PatchType.MERGE, "application/merge-patch+json"),
        (PatchType.JSON, "application/json-patch+json"),
        (PatchType.STRATEGIC, "application/strategic-merge-patch+json"),
        (PatchType.APPLY, "application/apply-patch+yaml"),
    ],
)
@virtual_time
async def test_a_patch_says_how_it_is_meant(patch_type: PatchType, content_type: str) -> None:
    async with (
        ScriptedServer(json_answer({})) as server,
        server.client(field_manager="kueue") as client,
    ):
        await client.patch(
            WORKLOADS, "w", {"a": None}, namespace="n", subresource="status", patch_type=patch_type
        )
    (seen,) = server.seen
    assert seen.path == "/apis/kueue.x-k8s.io/v1beta2/namespaces/n/workloads/w/status"
    assert seen.headers["Content-Type"] == content_type
    assert seen.query == {"fieldManager": "kueue"}
    assert seen.json == {"a": None}


@virtual_time
async def test_create_takes_the_namespace_from_the_object_and_may_only_try() -> None:
    async with ScriptedServer(json_answer({})) as server, server.client() as client:
        await client.create(JOBS, {"metadata": {"namespace": "n", "name": "j"}}, dry_run=True)
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/apis/batch/v1/namespaces/n/jobs")
    assert seen.query == {"dryRun": "All"}


@virtual_time
async def test_delete_sends_propagation_preconditions_and_grace() -> None:
    async with ScriptedServer(json_answer({})) as server, server.client() as client:
        await client.delete(
            JOBS,
            "j",
            namespace="n",
            propagation="Background",
            uid="u",
            resource_version="7",
            grace_seconds=0,
        )
    assert server.seen[0].json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
    }


@virtual_time
async def test_replace_puts_the_object() -> None:
    async with ScriptedServer(json_answer(pod("a", 2))) as server, server.client() as client:
        assert await client.replace(PODS, "a", pod("a", 1), namespace="team-a") == pod("a", 2)
    assert server.seen[0].method == "PUT"


@virtual_time
async def test_a_list_is_collected_page_by_page() -> None:
    pages = [pod_list(9, pod("a", 1), token="t1"), pod_list(9, pod("b", 2))]
    async with ScriptedServer(lists=pages) as server, server.client() as client:
        got = await client.list(PODS, limit=1, label_selector="x=y", resource_version="0")
    assert [p["metadata"]["name"] for p in got.items] == ["a", "b"]
    assert got.resource_version == "9"
    assert [s.query for s in server.seen] == [
        {"labelSelector": "x=y", "resourceVersion": "0", "limit": "1"},
        {"labelSelector": "x=y", "limit": "1", "continue": "t1"},
    ]


@virtual_time
async def test_items_of_a_list_get_the_kind_back_that_the_server_leaves_out() -> None:
    lists = [json_answer({"metadata": {}, "items": [{"metadata": {"name": "a"}}]})]
    async with ScriptedServer(lists=lists) as server, server.client() as client:
        (got,) = (await client.list(PODS)).items
    assert (got["apiVersion"], got["kind"]) == ("v1", "Pod")


@virtual_time
async def test_a_list_that_outlived_its_version_is_read_again_in_one_page() -> None:
    lists = [
        pod_list(1, pod("old", 1), token="t"),
        status(410, "Expired", "continue token too old"),
        pod_list(2, pod("a", 2)),
    ]
    async with ScriptedServer(lists=lists) as server, server.client() as client:
        got = await client.list(PODS, limit=1)
    assert [p["metadata"]["name"] for p in got.items] == ["a"]
    assert "limit" not in server.seen[-1].query


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (status(404, "NotFound", 'pods "a" not found'), errors.NotFound, 'pods "a" not found'),
        (status(409, "Conflict", "modified"), errors.Conflict, "409 Conflict"),
        (status(409, "AlreadyExists", "exists"), errors.AlreadyExists, "exists"),
        (status(403, "Forbidden", "no"), errors.Forbidden, "403"),
        (status(401, "Unauthorized", "who"), errors.Unauthorized, "401"),
        (status(422, "Invalid", "bad"), errors.Invalid, "bad"),
        (status(429, "TooManyRequests", "slow"), errors.TooManyRequests, "slow"),
        (status(500, "InternalError", "oops"), errors.ServerError, "oops"),
        (html(502), errors.ServerError, "<h1>Bad gateway</h1>"),
        (html(404, "404 page not found\n"), errors.NotFound, "404 page not found"),
        (drop(), errors.TransportError, "GET"),
        (hang(), errors.RequestTimeout, "no answer within 3 s"),
    ],
)
@virtual_time
async def test_each_failure_has_its_error_and_names_its_request(
    answer: Answer, error: type[errors.KubeError], words: str
) -> None:
    async with ScriptedServer(answer) as server, server.client(default_timeout=3.0) as client:
        with pytest.raises(error) as caught:
            await client.get(PODS, "a", namespace="n", subresource="status")
    assert type(caught.value) is error
    assert 'GET pods/status "n/a"' in str(caught.value)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


@virtual_time
async def test_details_and_causes_of_a_refusal_are_kept() -> None:
    details = {
        "kind": "Workload",
        "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.x"}],
    }
    answer = status(422, "Invalid", "no", details=details)
    async with ScriptedServer(answer) as server, server.client() as client:
        with pytest.raises(errors.Invalid) as caught:
            await client.create(WORKLOADS, {"metadata": {"name": "w"}}, namespace="n")
    assert caught.value.causes == (errors.Cause("FieldValueInvalid", "bad", "spec.x"),)
    assert caught.value.details["kind"] == "Workload"


@virtual_time
async def test_nobody_listening_is_a_transport_error() -> None:
    async with ScriptedServer(hang()) as server:
        client = server.client()
    async with client:
        with pytest.raises(errors.TransportError) as caught:
            await client.get(PODS, "a", namespace="n")
    assert caught.value.retryable


@virtual_time
async def test_a_closed_client_says_so() -> None:
    async with ScriptedServer(hang()) as server:
        client = server.client()
        await client.close()
        with pytest.raises(errors.TransportError, match="closed"):
            await client.get(PODS, "a", namespace="n")


@virtual_time
async def test_warnings_of_the_server_are_handed_on() -> None:
    headers = {"Warning": r'299 - "unknown field \"spec.x\"", 299 - "second"'}
    got: list[str] = []
    async with (
        ScriptedServer(json_answer({}, headers=headers)) as server,
        server.client(on_warning=got.append) as client,
    ):
        await client.get(PODS, "a", namespace="n")
    assert got == ['unknown field "spec.x"', "second"]


@virtual_time
async def test_a_request_that_was_shed_is_sent_again_when_the_server_said() -> None:
    shed = status(429, "TooManyRequests", "later", headers={"Retry-After": "2"})
    async with ScriptedServer(shed, json_answer({"ok": 1})) as server, server.client() as client:
        assert await client.get(PODS, "a", namespace="n") == {"ok": 1}
    first, second = server.seen
    assert second.at - first.at >= 2.0


@virtual_time
async def test_who_refused_is_reported() -> None:
    headers = {
        "Retry-After": "1",
        "X-Kubernetes-PF-FlowSchema-UID": "schema-uid",
        "X-Kubernetes-PF-PriorityLevel-UID": "level-uid",
    }
    words = "Too many requests, please try again later."
    shed = status(429, "TooManyRequests", words, headers=headers)
    initializing = status(429, "TooManyRequests", "storage is (re)initializing", headers=headers)
    got: list[str] = []
    async with (
        ScriptedServer(initializing, shed, json_answer({"ok": 1})) as server,
        server.client(on_warning=got.append) as client,
    ):
        await client.get(PODS, "a", namespace="n")
    (text,) = got
    assert "the PriorityLevelConfiguration with uid level-uid" in text
    assert "the FlowSchema with uid schema-uid" in text


@virtual_time
async def test_a_server_that_keeps_shedding_is_given_up() -> None:
    shed = status(429, "TooManyRequests", "later", headers={"Retry-After": "1"})
    async with ScriptedServer(shed) as server, server.client() as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.get(PODS, "a", namespace="n")
    assert caught.value.retry_after == 1.0
    assert len(server.seen) == 4


@virtual_time
async def test_a_wait_beyond_the_deadline_is_left_to_the_caller() -> None:
    shed = status(429, "TooManyRequests", "later", headers={"Retry-After": "600"})
    async with ScriptedServer(shed) as server, server.client() as client:
        with pytest.raises(errors.TooManyRequests):
            await client.get(PODS, "a", namespace="n")
    assert len(server.seen) == 1


@virtual_time
async def test_leases_do_not_wait_for_our_own_load() -> None:
    async with (
        ScriptedServer(hang(), json_answer({"spec": {}})) as server,
        server.client() as client,
    ):
        client.limiter.release(refused=True, retry_after=50)
        client.limiter.in_flight = 0
        stuck = asyncio.ensure_future(client.get(PODS, "a", namespace="n"))
        await asyncio.sleep(1)
        assert not server.seen
        stuck.cancel()
        await asyncio.wait({stuck})
        server.seen.clear()
        lease = asyncio.ensure_future(client.get(LEASES, "l", namespace="n"))
        await asyncio.sleep(1)
        assert [s.path for s in server.seen] == [
            "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"
        ]
        lease.cancel()
        await asyncio.wait({lease})


@virtual_time
async def test_outcomes_are_told_for_metrics() -> None:
    got: list[Any] = []
    async with (
        ScriptedServer(json_answer({}), status(404), drop()) as server,
        server.client(on_outcome=got.append) as client,
    ):
        await client.get(SECRETS, "a", namespace="n")
        with pytest.raises(errors.NotFound):
            await client.get(SECRETS, "a", namespace="n")
        with pytest.raises(errors.TransportError):
            await client.patch(EVENTS, "a", {}, namespace="n")
    assert [(o.method, o.resource, o.status) for o in got] == [
        ("GET", "secrets", 200),
        ("GET", "secrets", 404),
        ("PATCH", "events", 0),
    ]


@virtual_time
async def test_any_path_can_be_asked() -> None:
    async with ScriptedServer(html(200, "ok")) as server, server.client() as client:
        response = await client.request("GET", "/readyz", params={"verbose": "1"}, accept="*/*")
    assert (response.status, response.body) == (200, b"ok")
    assert server.seen[0].query == {"verbose": "1"}


@virtual_time
async def test_proxies_and_netrc_of_the_environment_are_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with ScriptedServer(json_answer({"ok": 1})) as server, server.client() as client:
        assert await client.get(PODS, "a", namespace="n") == {"ok": 1}


HOOK = "team-a", "trainer:8080", "/save"


@virtual_time
async def test_a_post_to_a_service_goes_through_the_proxy_and_its_answer_is_not_read() -> None:
    endless = stream(b"x" * 1000, then="hang")
    async with ScriptedServer(endless) as server, server.client() as client:
        assert await client.post_to_service(*HOOK, {"a": 1}, timeout=2) == 200
    (seen,) = server.seen
    assert (seen.method, seen.json) == ("POST", {"a": 1})
    assert seen.path == "/api/v1/namespaces/team-a/services/trainer:8080/proxy/save"


@virtual_time
async def test_a_redirect_of_a_service_is_not_followed() -> None:
    moved = json_answer({}, status=302, headers={"Location": "/api/v1/secrets"})
    async with ScriptedServer(moved) as server, server.client() as client:
        assert await client.post_to_service(*HOOK, {}, timeout=2) == 302
    assert len(server.seen) == 1


@pytest.mark.parametrize("code", [429, 503, 504])
@virtual_time
async def test_what_a_service_answers_says_nothing_about_the_api_server(code: int) -> None:
    refused = status(code, message="later", headers={"Retry-After": "1"})
    heard: list[Any] = []
    async with ScriptedServer(refused) as server, server.client(on_outcome=heard.append) as client:
        rate = client.limiter.rate
        with pytest.raises(errors.ApiError, match="later"):
            await client.post_to_service(*HOOK, {}, timeout=2)
        assert (client.limiter.rate, client.limiter.throttled, heard) == (rate, 0, [])
    assert len(server.seen) == 1


@virtual_time
async def test_a_service_that_hangs_is_given_up_in_time() -> None:
    async with ScriptedServer(hang()) as server, server.client() as client:
        with pytest.raises(errors.RequestTimeout, match="no answer within 2 s"):
            await client.post_to_service(*HOOK, {}, timeout=2)


@virtual_time
async def test_a_401_of_a_service_is_no_reason_to_sign_in_again() -> None:
    loads: list[None] = []

    async with ScriptedServer(status(401, message="who are you")) as server:

        async def load() -> Material:
            loads.append(None)
            return Material(server=server.url, authorization=f"Bearer token-{len(loads)}")

        credentials = Credentials(await load(), load=load)
        async with KubeClient(credentials) as client:
            with pytest.raises(errors.Unauthorized):
                await client.post_to_service(*HOOK, {}, timeout=2)
    assert (len(server.seen), len(loads)) == (1, 1)


@virtual_time
async def test_a_service_cannot_speak_as_the_api_server_in_the_log() -> None:
    warned = json_answer({}, headers={"Warning": '299 - "from a Service"'})
    rule = {"X-Kubernetes-PF-PriorityLevel-UID": "u1", "X-Kubernetes-PF-FlowSchema-UID": "u2"}
    words = {"message": "too many requests, please try again"}
    refused = json_answer(words, status=429, headers=rule)
    async with ScriptedServer(warned, refused) as server, server.client() as client:
        with structlog.testing.capture_logs() as logs:
            assert await client.post_to_service(*HOOK, {}, timeout=2) == 200
            with pytest.raises(errors.TooManyRequests):
                await client.post_to_service(*HOOK, {}, timeout=2)
        assert logs == []
