"""What only the embedded server has: options, converters, limits."""

import asyncio
import base64
import io
import json
import ssl
from typing import Any

import aiohttp

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from tests.contract.client import Answer, Api, Cluster, config_map
from tests.contract.test_crds import definition, version, widget
from tests.contract.webhook_server import json_patch, serve_webhook

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
GROUP = "g.example.com"


def client(server: ApiServer, session: aiohttp.ClientSession) -> Api:
    token = server.kubeconfig()["users"][0]["user"]["token"]
    cluster = Cluster(server.url, {"Authorization": f"Bearer {token}"}, None, embedded=True)
    return Api(cluster, session)


async def test_tls_is_on_and_trusted_through_the_kubeconfig() -> None:
    async with ApiServer() as server, aiohttp.ClientSession() as session:
        config = server.kubeconfig(name="worker-1")
        cluster = config["clusters"][0]["cluster"]
        assert cluster["server"].startswith("https://127.0.0.1:")
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        api = client(server, session)
        api.cluster.ssl = ssl.create_default_context(cadata=authority)
        assert await api.get("/api/v1/namespaces")
        assert config["current-context"] == "worker-1"


async def test_other_tokens_are_other_users() -> None:
    options = ServerOptions(tls=False, tokens={"secret": ApiUser("jane", ("dev",))})
    async with ApiServer(options) as server, aiohttp.ClientSession() as session:
        api = client(server, session)
        headers = {"Authorization": "Bearer secret"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        answer = await api.send("POST", path, {}, headers=headers)
        assert answer.body["status"]["userInfo"]["username"] == "jane"


def widen(obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    """v1 says spec.size, v2 says spec.width."""
    spec = dict(obj["spec"])
    old, new = ("size", "width") if api_version.endswith("/v2") else ("width", "size")
    if old in spec:
        spec[new] = spec.pop(old)
    return {**obj, "apiVersion": api_version, "spec": spec}


def wide_definition() -> dict[str, Any]:
    spec = {"type": "object", "properties": {"width": {"type": "integer", "maximum": 10}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    wide = version("v2", schema={"openAPIV3Schema": schema}, selectableFields=[])
    return definition(GROUP, wide, version("v1", storage=False))


async def test_converters_serve_each_version_in_its_shape() -> None:
    options = ServerOptions(
        tls=False, crds=[wide_definition()], converters={(GROUP, "Widget"): widen}
    )
    async with ApiServer(options) as server, aiohttp.ClientSession() as session:
        api = client(server, session)
        v1 = f"/apis/{GROUP}/v1/namespaces/default/widgets"
        v2 = f"/apis/{GROUP}/v2/namespaces/default/widgets"
        async with api.watch(v2) as stream:
            await api.create(v1, widget(GROUP, size=3))
            _, seen = await stream.next()
        assert seen["spec"]["width"] == (await api.get(f"{v2}/a"))["spec"]["width"] == 3
        patched = await api.merge(f"{v1}/a", {"spec": {"size": 4}})
        assert patched["spec"]["size"] == 4
        assert (await api.get(v2))["items"][0]["spec"]["width"] == 4
        assert (await api.get(v1))["items"][0]["spec"]["size"] == 4


async def test_without_a_converter_only_the_version_changes() -> None:
    crd = wide_definition()
    client_config = {"service": {"namespace": "test", "name": "hooks"}}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client_config}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    async with (
        ApiServer(ServerOptions(tls=False, crds=[crd])) as server,
        aiohttp.ClientSession() as session,
    ):
        api = client(server, session)
        v1, v2 = (f"/apis/{GROUP}/{name}/namespaces/default/widgets" for name in ("v1", "v2"))
        body = {"spec": {"width": 3}, "metadata": {"name": "a"}}
        await api.create(v2, {"apiVersion": f"{GROUP}/v2", "kind": "Widget", **body})
        shown = await api.get(f"{v1}/a")
        assert (shown["apiVersion"], shown["spec"]) == (f"{GROUP}/v1", {"width": 3})


async def test_a_webhook_is_found_through_its_service() -> None:
    async with (
        serve_webhook() as hooks,
        ApiServer(ServerOptions(tls=False)) as server,
        aiohttp.ClientSession() as session,
    ):
        api = client(server, session)
        server.map_service("test", "hooks", hooks.url)
        patch = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
        hooks.answers["/mutate"] = lambda _request: json_patch(patch)
        service = {"namespace": "test", "name": "hooks", "path": "/mutate"}
        rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"]}
        hook = {
            "name": "a.example.com",
            "clientConfig": {"service": service, "caBundle": hooks.ca_bundle},
            "rules": [{**rule, "resources": ["configmaps"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        await api.create(path, {"metadata": {"name": "a"}, "webhooks": [hook]})
        created = await api.create(CONFIG_MAPS, config_map("a"))
        assert created["metadata"]["labels"] == {"seen": "yes"}


async def test_a_watcher_that_cannot_keep_up_is_cut() -> None:
    options = ServerOptions(tls=False, most_pending=20)
    async with ApiServer(options) as server, aiohttp.ClientSession() as session:
        api = client(server, session)
        host, _, port = server.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        token = api.cluster.headers["Authorization"]
        request = (
            f"GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n"
        )
        writer.write(request.encode())
        await writer.drain()
        await asyncio.sleep(0.1)
        for index in range(80):  # nobody reads: socket buffers fill, then the queue
            await api.create(CONFIG_MAPS, config_map(f"c{index}", {"x": "y" * 500_000}))
        store = server.store
        assert store is not None
        assert store.collection(("", "configmaps")).history.watchers == []
        writer.close()
        assert reader is not None


async def test_history_is_bounded() -> None:
    options = ServerOptions(tls=False, history_length=5)
    async with ApiServer(options) as server, aiohttp.ClientSession() as session:
        api = client(server, session)
        start = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
        for index in range(10):
            await api.create(CONFIG_MAPS, config_map(f"c{index}"))
        async with api.watch(CONFIG_MAPS, resourceVersion=start) as stream:
            assert (await stream.next())[1]["code"] == 410
        query = {"resourceVersion": start, "resourceVersionMatch": "Exact"}
        assert (await api.send("GET", CONFIG_MAPS, **query)).status == 410


async def test_a_continue_token_from_the_forgotten_past_is_too_old() -> None:
    options = ServerOptions(tls=False, history_length=2)
    async with ApiServer(options) as server, aiohttp.ClientSession() as session:
        api = client(server, session)
        for name in "abcd":
            await api.create(CONFIG_MAPS, config_map(name))
        token = (await api.get(CONFIG_MAPS, limit=2))["metadata"]["continue"]
        for name in "efg":
            await api.create(CONFIG_MAPS, config_map(name))
        answer = await api.send("GET", CONFIG_MAPS, **{"limit": 2, "continue": token})
        assert (answer.status, answer.body["reason"]) == (410, "Expired")


async def test_large_bodies_are_refused() -> None:
    async with (
        ApiServer(ServerOptions(tls=False)) as server,
        aiohttp.ClientSession() as session,
    ):
        api = client(server, session)
        body = io.BytesIO(json.dumps(config_map("a", {"x": "y" * 3_500_000})).encode())
        url = server.url + CONFIG_MAPS
        async with session.post(url, data=body, headers=api.cluster.headers) as response:
            answer = Answer(response.status, await response.text(), response.headers)
        assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_revision_of_another_kind_is_a_start_too() -> None:
    async with (
        ApiServer(ServerOptions(tls=False)) as server,
        aiohttp.ClientSession() as session,
    ):
        api = client(server, session)
        start = (await api.get("/api/v1/namespaces"))["metadata"]["resourceVersion"]
        for name in "ab":
            await api.create(CONFIG_MAPS, config_map(name))
        secrets = "/api/v1/namespaces/default/secrets"
        async with api.watch(secrets, resourceVersion=start) as stream:
            await api.create(secrets, {"metadata": {"name": "s"}})
            assert await stream.next_names(1) == [("ADDED", "s")]


async def test_stopping_ends_watches_in_time() -> None:
    server = ApiServer(ServerOptions(tls=False))
    await server.start()
    async with aiohttp.ClientSession() as session:
        api = client(server, session)
        async with api.watch(CONFIG_MAPS) as stream:
            await api.create(CONFIG_MAPS, config_map("a"))
            await stream.next()
            async with asyncio.timeout(2):
                await server.stop()
                assert await stream.rest() == []


async def test_who_reads_protobuf_only_is_told_what_there_is() -> None:
    """Real servers write protobuf."""
    async with ApiServer(ServerOptions(tls=False)) as server, aiohttp.ClientSession() as session:
        headers = {"Accept": "application/vnd.kubernetes.protobuf"}
        refused = await client(server, session).send("GET", CONFIG_MAPS, headers=headers)
        assert (refused.status, refused.body["reason"]) == (406, "NotAcceptable")
