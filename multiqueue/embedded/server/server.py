"""The embedded Kubernetes API server, built from its options."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from multiqueue.embedded.server import crds, namespaces
from multiqueue.embedded.server.admission.admission import WebhookAdmission
from multiqueue.embedded.server.aggregation.aggregator import Aggregator
from multiqueue.embedded.server.aggregation.front_proxy import FrontProxy, create_proxy_authority
from multiqueue.embedded.server.auth import (
    ADMIN,
    API_SERVER,
    ApiUser,
    TokenAuthenticator,
    new_token,
)
from multiqueue.embedded.server.authz.aggregation import AggregationController
from multiqueue.embedded.server.authz.attributes import Audit
from multiqueue.embedded.server.authz.authorizer import RoleAuthorizer
from multiqueue.embedded.server.authz.bootstrap import create_policy
from multiqueue.embedded.server.authz.default_accounts import DefaultAccounts
from multiqueue.embedded.server.authz.entrance import Entrance
from multiqueue.embedded.server.authz.signing import create_key
from multiqueue.embedded.server.authz.tokens import ServiceAccountTokens
from multiqueue.embedded.server.body import MAX_BYTES
from multiqueue.embedded.server.builtin.registry import builtin_registry
from multiqueue.embedded.server.certificates import Authority, create_authority, server_context
from multiqueue.embedded.server.converters import Converters
from multiqueue.embedded.server.crds import CrdController
from multiqueue.embedded.server.create import create
from multiqueue.embedded.server.gc import OwnerCollector
from multiqueue.embedded.server.handlers.handlers import Handlers
from multiqueue.embedded.server.handlers.meta import MetaHandlers
from multiqueue.embedded.server.kinds import GroupPlural, Registry
from multiqueue.embedded.server.kubeconfig import build_kubeconfig
from multiqueue.embedded.server.namespaces import NamespaceController
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.pod_logs.pod_logs import PodLog, no_log
from multiqueue.embedded.server.storage.memory import MemoryStorage
from multiqueue.embedded.server.storage.sqlite import SqliteStorage
from multiqueue.embedded.server.storage.storage import Saved, Storage
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.update import Change, update
from multiqueue.embedded.server.watch import MAX_PENDING
from multiqueue.embedded.server.webhook_transport import WebhookTransport
from multiqueue.kube.clock import Clock, SystemClock
from multiqueue.serving.server import Bounds, HttpServer

DATABASE = "objects.sqlite3"
SHUTDOWN_SECONDS = 1.0
"""How long requests in flight may take when the server stops; watches are ended first."""
BOUNDS = Bounds(
    connections=2048, body_bytes=MAX_BYTES, line_bytes=128 * 1024, header_bytes=64 * 1024
)
"""Selectors can be long; one of 1 MB, as Go takes it, would keep all others waiting for seconds.
Each watch is a connection.
"""
TOKEN, CA_CERTIFICATE, CA_KEY = "admin-token", "ca-certificate", "ca-key"
PROXY_CERTIFICATE, PROXY_KEY = "front-proxy-certificate", "front-proxy-key"
SIGNING_KEY = "service-account-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How a server is to be."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any free one."""
    data_dir: Path | None = None
    """Where objects, tokens and certificates are kept; None: in memory only."""
    tls: bool = True
    crds: Sequence[Mapping[str, Any]] = ()
    """Definitions that are created, or replaced, at the start."""
    converters: Converters = field(default_factory=dict)
    """(group, kind) -> function (object, wanted apiVersion) -> object, for kinds with several
    versions.
    """
    tokens: Mapping[str, ApiUser] = field(default_factory=dict)
    """Bearer tokens besides that of the administrator."""
    audit: Audit | None = None
    """Records every request of a known user that names a resource or a path."""
    clock: Clock = field(default_factory=SystemClock)
    history_length: int = 4096
    """Changes per kind that a watch can start behind."""
    most_pending: int = MAX_PENDING
    """Changes that may wait for a slow watcher before its connection is cut."""
    services: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(namespace, name) of a Service -> base URL: where webhooks that name a service are reached.
    """
    pod_log: PodLog = no_log
    """What ``kubectl logs`` shows; whoever simulates the kubelets knows."""


class ApiServer:
    """A server that is started once and stopped once; ``async with`` does both."""

    def __init__(self, options: ServerOptions | None = None) -> None:
        self.options = options or ServerOptions()
        self.url = ""
        self._token = ""
        self._signing_key = b""
        self._authority: Authority | None = None
        self._proxy_authority: Authority | None = None
        self._storage: Storage = _storage(self.options)
        self.store: ObjectStore | None = None
        self._aggregator: Aggregator | None = None
        self._webhooks = WebhookTransport(self.options.services)
        self._server: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()  # a failed start must not keep the file
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> str:
        """Load, listen, and answer the URL."""
        saved = self._storage.open()
        self._load_secrets(saved)
        store = self.store = ObjectStore(
            self._storage,
            history_length=self.options.history_length,
            most_pending=self.options.most_pending,
        )
        objects, entrance = self._build_objects(store)
        aggregator = self._aggregator = Aggregator(
            objects, self.options.services, self._front_proxy()
        )
        self._start_controllers(objects, entrance.authorizer, aggregator, saved)
        await self._create_initial_objects(objects, aggregator)
        meta = MetaHandlers(objects.registry, aggregator)
        await self._listen(Handlers(objects, entrance, aggregator, meta, self.options.pod_log))
        return self.url

    async def stop(self) -> None:
        """End watches, answer what is in flight."""
        if self._server is not None:
            await self._server.stop_listening()
        if self.store is not None:
            self.store.close_watches()
        if self._server is not None:
            await self._server.stop()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        await self._webhooks.close()
        if self._aggregator is not None:
            await self._aggregator.close()
        self._storage.close()

    def kubeconfig(self, *, name: str = "multiqueue", namespace: str = "default") -> dict[str, Any]:
        """A kubeconfig for the administrator."""
        assert self.url, "the server is not started"
        authority = self._authority.certificate if self._authority else None
        return build_kubeconfig(
            url=self.url, authority=authority, token=self._token, name=name, namespace=namespace
        )

    def map_service(self, namespace: str, name: str, url: str) -> None:
        """Say where a Service is reached that webhooks or APIServices name; again when it moves."""
        assert self._aggregator is not None, "the server is not started"
        self._webhooks.map_service(namespace, name, url)
        self._aggregator.map_service(namespace, name, url)

    # ------------------------------------------------------------------ start
    def _load_secrets(self, saved: Saved) -> None:
        self._token = saved.settings.get(TOKEN, b"").decode()
        if not self._token:
            self._token = new_token()
            self._storage.save_setting(TOKEN, self._token.encode())
        self._signing_key = saved.settings.get(SIGNING_KEY) or create_key()
        if SIGNING_KEY not in saved.settings:
            self._storage.save_setting(SIGNING_KEY, self._signing_key)
        if PROXY_KEY in saved.settings:
            pair = (saved.settings[PROXY_CERTIFICATE], saved.settings[PROXY_KEY])
            self._proxy_authority = Authority(*pair)
        else:
            self._proxy_authority = create_proxy_authority(self.options.clock.now())
            self._storage.save_setting(PROXY_CERTIFICATE, self._proxy_authority.certificate)
            self._storage.save_setting(PROXY_KEY, self._proxy_authority.key)
        if not self.options.tls:
            return
        if CA_KEY in saved.settings:
            self._authority = Authority(saved.settings[CA_CERTIFICATE], saved.settings[CA_KEY])
        else:
            self._authority = create_authority(self.options.clock.now())
            self._storage.save_setting(CA_CERTIFICATE, self._authority.certificate)
            self._storage.save_setting(CA_KEY, self._authority.key)

    def _front_proxy(self) -> FrontProxy:
        assert self._proxy_authority is not None, "secrets are loaded first"
        return FrontProxy(self._proxy_authority, self.options.clock.now())

    def _build_objects(self, store: ObjectStore) -> tuple[Objects, Entrance]:
        clock = self.options.clock
        tokens = ServiceAccountTokens(store, clock, self._signing_key)
        authenticator = TokenAuthenticator({self._token: ADMIN, **self.options.tokens}, tokens)
        authorizer = RoleAuthorizer()
        objects = Objects(
            registry=builtin_registry(authenticator, authorizer, tokens),
            store=store,
            admission=WebhookAdmission(store, self._webhooks),
            clock=clock,
        )
        entrance = Entrance(
            authenticator=authenticator, authorizer=authorizer, audit=self.options.audit
        )
        return objects, entrance

    def _start_controllers(
        self, objects: Objects, authorizer: RoleAuthorizer, aggregator: Aggregator, saved: Saved
    ) -> None:
        store = objects.store
        crd_controller = CrdController(objects, self.options.converters)
        namespace_controller, collector = NamespaceController(objects), OwnerCollector(objects)
        stored = list(saved.objects)
        store.load(saved.revision, [each for each in stored if each[0] == crds.KEY])
        crd_controller.resume()
        store.load(
            saved.revision,
            [(key, _current(objects.registry, key, raw)) for key, raw in stored if key != crds.KEY],
        )
        authorizer.load(store)
        namespace_controller.resume()
        collector.resume()
        aggregator.resume()
        accounts = DefaultAccounts(objects)
        accounts.resume()
        more = (AggregationController(store), accounts)
        for controller in (aggregator, crd_controller, namespace_controller, collector, *more):
            store.observers.append(controller.observe)
            task = asyncio.create_task(controller.background.run(), name=controller.background.name)
            self._tasks.append(task)

    async def _create_initial_objects(self, objects: Objects, aggregator: Aggregator) -> None:
        now = objects.clock.now()
        namespaces.create_initial(objects.store, now)
        create_policy(objects.store, now)
        kind = objects.registry.get(*crds.KEY)
        assert kind is not None, "definitions are built in"
        call = objects.call(API_SERVER)
        for crd in self.options.crds:
            target = OperationTarget(
                kind=kind, version=kind.storage_version, name=crd["metadata"]["name"]
            )
            if target.find(objects.store) is None:
                await create(objects, call, target, crd)
            else:
                await update(objects, call, target, Change(produce=_replacement(crd)))
        await aggregator.publish()
        await DefaultAccounts(objects).ensure_all()

    async def _listen(self, handlers: Handlers) -> None:
        options = self.options
        context = None
        if self._authority is not None:
            hosts = list(dict.fromkeys(("127.0.0.1", "localhost", options.host)))
            context = server_context(self._authority, hosts, options.clock.now())
        self._server = HttpServer(
            handlers,
            host=options.host,
            port=options.port,
            context=context,
            bounds=BOUNDS,
            shutdown_seconds=SHUTDOWN_SECONDS,
        )
        await self._server.start()
        self.url = f"{'https' if context else 'http'}://{options.host}:{self._server.port}"


def _storage(options: ServerOptions) -> Storage:
    if options.data_dir is None:
        return MemoryStorage()
    return SqliteStorage(options.data_dir / DATABASE)


def _current(registry: Registry, key: GroupPlural, raw: bytes) -> bytes:
    kind = registry.get(*key)
    return raw if kind is None else crds.migrated(kind, raw)


def _replacement(crd: Mapping[str, Any]) -> Any:
    """A definition from the options replaces the stored one, but keeps what the server knows about
    it.
    """

    def produce(current: dict[str, Any]) -> dict[str, Any]:
        metadata = {**current["metadata"], **crd["metadata"]}
        return {**crd, "metadata": metadata, "status": current.get("status")}

    return produce
