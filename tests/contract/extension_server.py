"""An extension API server as small as it gets: one group, one kind, and a note of who asked."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from multiqueue.kube.certificates import KeyPair, create_authority, issue_certificate
from tests.contract.client import Api

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@dataclass(frozen=True)
class Asked:
    """One request as the extension server saw it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: str
    client: str
    """Common name of the client's certificate."""

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class ExtensionServer:
    """Serves ``things`` of one group in version v1."""

    group: str
    port: int = 0
    authority: str = ""
    """PEM in base64, for a caBundle."""
    asked: list[Asked] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to let the stream of ``/things/slow`` end."""
    transports: set[asyncio.Transport] = field(default_factory=set)

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/v1"

    def registration(self, namespace: str, **spec: Any) -> dict[str, Any]:
        """The APIService, for the Service ``extension`` of a namespace."""
        service = {"name": "extension", "namespace": namespace, "port": self.port}
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{self.group}"},
            "spec": {
                "group": self.group,
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": self.authority,
                "service": service,
                **spec,
            },
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.transports.add(request.transport)
        certificate = request.transport.get_extra_info("peercert")
        names = dict(part[0] for part in certificate["subject"])
        name = names.get("commonName", "")
        headers = list(request.headers.items())
        body = await request.text()
        self.asked.append(Asked(request.method, request.path_qs, headers, body, name))
        if request.path == self.root:
            return web.json_response(self.resources())
        if request.path == f"{self.root}/things/slow":
            return await self._stream(request)
        if request.path.startswith(f"{self.root}/things"):
            return web.json_response({"kind": "Thing"}, status=201, headers={"X-Mine": "yes"})
        if request.path == "/apis" and DISCOVERY in request.headers.get("Accept", ""):
            return web.Response(
                body=json.dumps(self.discovery()), headers={"Content-Type": DISCOVERY}
            )
        if request.path == "/openapi/v3":
            url = f"/openapi/v3{self.root}?hash=1"
            return web.json_response({"paths": {self.root[1:]: {"serverRelativeURL": url}}})
        if request.path == f"/openapi/v3{self.root}":
            return web.json_response({"openapi": "3.0.0", "info": {"title": "things"}})
        return web.Response(status=404, text="404 page not found\n")

    def resources(self) -> dict[str, Any]:
        things = {
            "name": "things",
            "singularName": "thing",
            "namespaced": False,
            "kind": "Thing",
            "verbs": ["get", "list"],
            "shortNames": ["th"],
        }
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{self.group}/v1",
            "resources": [things],
        }

    def discovery(self) -> dict[str, Any]:
        """The same, aggregated."""
        kind = {"group": self.group, "version": "v1", "kind": "Thing"}
        things = {
            "resource": "things",
            "responseKind": kind,
            "scope": "Cluster",
            "singularResource": "thing",
            "shortNames": ["th"],
            "verbs": ["get", "list"],
        }
        version = {"version": "v1", "freshness": "Current", "resources": [things]}
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [{"metadata": {"name": self.group}, "versions": [version]}],
        }

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await self.more.wait()
        await response.write(b"last\n")
        return response


@asynccontextmanager
async def serving(api: Api, group: str, namespace: str, folder: Path) -> AsyncIterator[Any]:
    """The server, reachable through the Service ``extension`` of a namespace."""
    now = datetime.now(UTC)
    authority = create_authority("extension", now)
    host = f"extension.{namespace}.svc"
    server = ExtensionServer(group, authority=base64.b64encode(authority.certificate).decode())
    published = (await api.get(CONFIG_MAP))["data"]
    assert json.loads(published["requestheader-username-headers"]) == ["X-Remote-User"]
    context = _context(issue_certificate(authority, host, [host], now), folder)
    context.load_verify_locations(cadata=published["requestheader-client-ca-file"])
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    service = {
        "metadata": {"name": "extension"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    }
    await api.create(f"/api/v1/namespaces/{namespace}/services", service)
    try:
        yield server
    finally:
        await runner.cleanup()
        for transport in server.transports:
            transport.abort()  # the API server keeps its connections; do not wait for its goodbye
        await asyncio.sleep(0)
        await api.send("DELETE", f"{SERVICES}/v1.{group}")


def _context(pair: KeyPair, folder: Path) -> ssl.SSLContext:
    path = folder / "extension.pem"
    path.write_bytes(pair.key + pair.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
