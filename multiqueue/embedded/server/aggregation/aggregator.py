"""Group versions that other servers serve: finds them, checks them and forwards requests.

One `Background` checks each APIService when it or its Service changes, and periodically. It reads
the backend's discovery document, writes the condition Available and keeps the documents for
discovery and OpenAPI.
"""

import asyncio
from collections.abc import Mapping, Sequence

import structlog
from aiohttp import web

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.aggregation import documents
from multiqueue.embedded.server.aggregation.backend import (
    Backend,
    Unresolved,
    find_address,
    read_backend,
)
from multiqueue.embedded.server.aggregation.documents import BackendDocuments
from multiqueue.embedded.server.aggregation.front_proxy import CONFIG_MAP, NAMESPACE, FrontProxy
from multiqueue.embedded.server.aggregation.proxy import forward
from multiqueue.embedded.server.aggregation.transport import ProxyTransport, Unreachable
from multiqueue.embedded.server.auth import API_SERVER, MASTERS, ApiUser
from multiqueue.embedded.server.background import Background
from multiqueue.embedded.server.builtin.api_service import AVAILABLE, KEY, LOCAL
from multiqueue.embedded.server.create import create
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.status import StatusError
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.update import Change, update
from multiqueue.embedded.server.watch import Event

AGGREGATOR = ApiUser("system:kube-aggregator", (MASTERS,))
RECHECK_SECONDS = 30.0
"""Interval between checks of a backend that answers, as in Kubernetes."""
FIRST_RETRY_SECONDS = 0.25
"""First delay after a failed check; it doubles each time, up to the interval above."""
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_MALFORMED = (AttributeError, KeyError, TypeError)
"""Exceptions from reading a document of an unexpected shape; documents are not validated."""
_SERVICES = ("", "services")

log = structlog.get_logger(__name__)


class Aggregator:
    """Knows the backends of one server."""

    def __init__(
        self, objects: Objects, services: Mapping[tuple[str, str], str], front_proxy: FrontProxy
    ) -> None:
        self.front_proxy = front_proxy
        self._objects = objects
        self.background: Background[str] = Background("apiservices", self._look_at)
        self._services = dict(services)
        self._transport = ProxyTransport(front_proxy.pair)
        self._backends: dict[tuple[str, str], Backend] = {}
        self._known: dict[str, BackendDocuments] = {}
        self._retries: dict[str, float] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def resume(self) -> None:
        """Read the stored APIServices after a restart; call it before the first request."""
        for entry in self._objects.store.collection(KEY).entries():
            self._read(entry.decode())
            self.background.add(entry.name)

    async def publish(self) -> None:
        """Publish the front proxy's authority for extension API servers."""
        call, wanted = self._objects.call(API_SERVER), self.front_proxy.config_map()
        kind = self._objects.registry.get("", "configmaps")
        assert kind is not None, "config maps are built in"
        target = OperationTarget(
            kind=kind, version=kind.storage_version, namespace=NAMESPACE, name=CONFIG_MAP
        )
        if target.find(self._objects.store) is None:
            await create(self._objects, call, target, wanted)
        else:
            await update(
                self._objects,
                call,
                target,
                Change(produce=lambda obj: {**obj, "data": wanted["data"]}),
            )

    async def close(self) -> None:
        """Forget timers and connections."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await self._transport.close()

    def map_service(self, namespace: str, name: str, url: str) -> None:
        """Set the URL of a Service."""
        self._services[namespace, name] = url
        self._wake_users(namespace, name)

    def observe(self, event: Event) -> None:
        """Follow APIServices and Services."""
        entry = event.entry
        if entry.collection == _SERVICES:
            self._wake_users(entry.namespace, entry.name)
        elif entry.collection == KEY:
            obj = entry.decode()
            if event.deleted:
                self._forget(entry.name, obj)
                return
            self._read(obj)
            if event.previous is None or event.previous.decode()["spec"] != obj["spec"]:
                self._retries.pop(entry.name, None)
                self.background.add(entry.name)

    def _read(self, obj: JsonObject) -> None:
        spec = obj["spec"]
        key, backend = (spec.get("group", ""), spec["version"]), read_backend(obj)
        if backend is None:
            self._backends.pop(key, None)
        else:
            self._backends[key] = backend

    def _forget(self, name: str, obj: JsonObject) -> None:
        self._backends.pop((obj["spec"].get("group", ""), obj["spec"]["version"]), None)
        self._unlearn(name)

    def _unlearn(self, name: str) -> None:
        self._known.pop(name, None)
        self._retries.pop(name, None)
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()

    def _wake_users(self, namespace: str, service: str) -> None:
        for backend in self._backends.values():
            if (backend.namespace, backend.service) == (namespace, service):
                self.background.add(backend.name)

    # ------------------------------------------------------------------ requests
    def find(self, path: str) -> Backend | None:
        """Return the backend for a path of resources, discovery or OpenAPI, or None."""
        if not self._backends:
            return None
        parts = path.removeprefix("/openapi/v3").split("/", 4)
        if len(parts) < 4 or parts[1] != "apis":
            return None
        return self._backends.get((parts[2], parts[3]))

    async def forward(
        self, http: web.BaseRequest, user: ApiUser, backend: Backend
    ) -> web.StreamResponse:
        """Forward a request to a backend and return its answer."""
        return await forward(
            http,
            user,
            backend,
            store=self._objects.store,
            services=self._services,
            transport=self._transport,
        )

    def add_groups(self, local: Sequence[JsonObject]) -> list[JsonObject]:
        """The groups of an APIGroupList."""
        return documents.add_groups(local, self._backends.values())

    def add_discovery(self, local: Sequence[JsonObject]) -> list[JsonObject]:
        """The items of an APIGroupDiscoveryList."""
        return documents.add_discovery(local, self._backends.values(), self._known)

    def add_openapi(self, local: JsonObject) -> JsonObject:
        """The index of OpenAPI v3."""
        return documents.add_openapi(local, self._known.values())

    # ------------------------------------------------------------------ availability
    async def _look_at(self, name: str) -> None:
        entry = self._objects.store.get(KEY, "", name)
        if entry is None:
            return
        backend = read_backend(entry.decode())
        if backend is None:
            self._unlearn(name)
            await self._report(name, LOCAL)
            return
        condition = await self._check(backend)
        is_available = condition["status"] == "True"
        await self._report(name, condition)
        if (backend.group, backend.version) not in self._backends:
            self._unlearn(name)  # it was deleted during the check
            return
        if not is_available:
            known = self._known.get(name, BackendDocuments())
            self._known[name] = BackendDocuments(
                known.resources, is_current=False, openapi=known.openapi
            )
        self._plan(name, is_available=is_available)

    async def _check(self, backend: Backend) -> JsonObject:
        try:
            base = find_address(backend, self._objects.store, self._services)
        except Unresolved as error:
            return _unavailable(error.reason, str(error))
        url = base + backend.path
        try:
            await self._transport.get(backend, url, AGGREGATOR)
            self._known[backend.name] = await self._learn(backend, base)
        except Unreachable as error:
            message = f"failing or missing response from {url}: {error}"
            return _unavailable("FailedDiscoveryCheck", message)
        return _condition("True", "Passed", "all checks passed")

    async def _learn(self, backend: Backend, base: str) -> BackendDocuments:
        """Read a backend's documents for discovery and OpenAPI."""
        resources = None
        try:
            found = await self._transport.get(backend, f"{base}/apis", AGGREGATOR, accept=DISCOVERY)
            resources = documents.resources_of(found, backend)
        except (Unreachable, *_MALFORMED) as error:
            log.warning("no aggregated discovery", api_service=backend.name, error=str(error))
        openapi: dict[str, JsonObject] = {}
        try:
            index = await self._transport.get(backend, f"{base}/openapi/v3", AGGREGATOR)
            openapi = documents.openapi_part(index, backend)
        except (Unreachable, *_MALFORMED) as error:
            log.debug("no OpenAPI", api_service=backend.name, error=str(error))
        return BackendDocuments(resources or [], is_current=resources is not None, openapi=openapi)

    def _plan(self, name: str, *, is_available: bool) -> None:
        """Schedule the next check."""
        seconds = RECHECK_SECONDS
        if is_available:
            self._retries.pop(name, None)
        else:
            seconds = self._retries.get(name, FIRST_RETRY_SECONDS)
            self._retries[name] = min(seconds * 2, RECHECK_SECONDS)
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(seconds, self.background.add, name)

    async def _report(self, name: str, condition: JsonObject) -> None:
        """Write the condition, unless it is unchanged."""
        call = self._objects.call(API_SERVER)
        kind = self._objects.registry.get(*KEY)
        assert kind is not None, "APIServices are built in"

        def produce(obj: JsonObject) -> JsonObject:
            conditions: list[JsonObject] = obj.setdefault("status", {}).setdefault("conditions", [])
            known = next((c for c in conditions if c["type"] == AVAILABLE), JsonObject())
            if all(known.get(key) == value for key, value in condition.items()):
                return obj
            since = known.get("lastTransitionTime")
            if known.get("status") != condition["status"] or not since:
                since = format_time(call.now)
            others = [each for each in conditions if each is not known]
            obj["status"]["conditions"] = [*others, {**condition, "lastTransitionTime": since}]
            return obj

        target = OperationTarget(
            kind=kind, version=kind.storage_version, name=name, subresource="status"
        )
        try:
            await update(self._objects, call, target, Change(produce=produce))
        except StatusError as error:
            if error.code != 404:
                raise


def _condition(status: str, reason: str, message: str) -> JsonObject:
    return {"type": AVAILABLE, "status": status, "reason": reason, "message": message}


def _unavailable(reason: str, message: str) -> JsonObject:
    return _condition("False", reason, message)
