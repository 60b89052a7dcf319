"""The worker guard's process: it reads marks, serves the webhook and registers it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from multiqueue.api.config import Configuration
from multiqueue.api.names import MULTIKUEUE_ORIGIN
from multiqueue.jobs.framework.integration import Integration
from multiqueue.kube.certificate_source import SecretCertificates, Serving
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import CONFIG_MAPS, VALIDATING_WEBHOOKS, WORKLOADS, Resource
from multiqueue.kube.retries import REGISTRATION
from multiqueue.kube.tls import build_server_context
from multiqueue.kube.trust import CertificateTrust
from multiqueue.webhooks.addresses import Address
from multiqueue.webhooks.guard.epochs import EpochBook, is_suspended
from multiqueue.webhooks.registration import ensure_configuration
from multiqueue.webhooks.server import WebhookServer

NAME = "multiqueue-worker-guard"
CERTIFICATE = f"{NAME}-cert"
PATH = "/guard-copies"
MARKS = "marks"
TIMEOUT_SECONDS = 2
"""The timeout is short and failures are ignored: a missing guard must not stop the worker."""
WRITE_SECONDS = 1.0
"""How often marks are written for the guard's next process."""
LAST_WRITE_SECONDS = 5.0
"""How long a guard that ends tries to write its marks: well within its pod's grace period."""
CHECK_SECONDS = 300.0
"""How often certificate and registration are checked."""

log = structlog.get_logger(component="worker-guard")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardOptions:
    """Options of a guard.

    Attributes:
        namespace: The namespace of its certificate, its marks and its Service.
        host: The address to listen on.
        port: The port to listen on; 0 for any.
        by_url: Whether the API server reaches it by URL on that host, instead of the Service.
        drain_seconds: How long requests are still answered after the end was asked for.
    """

    namespace: str = "kueue-system"
    host: str = ""
    port: int = 9443
    by_url: bool = False
    drain_seconds: float = 0.0


class NotRegisteredError(Exception):
    """The API server cannot call the guard."""


class WorkerGuard:
    """Refuses outdated copies and jobs on a worker.

    Args:
        client: The worker's client.
        options: The guard's options.
        kinds: The kinds of jobs that managers send; those that the worker lacks are awaited.
    """

    name = "worker-guard"

    def __init__(
        self, client: KubeClient, options: GuardOptions, *, kinds: Sequence[Integration]
    ) -> None:
        self._client = client
        self._options = options
        self._resources = (WORKLOADS, *(kind.resource for kind in kinds))
        self._kinds = {kind.gvk.kind: kind for kind in kinds}
        self._book = EpochBook()
        self._written = -1
        hosts = [f"{NAME}.{options.namespace}.svc", *([options.host] if options.by_url else [])]
        self._certificates = SecretCertificates(
            client, SystemClock(), namespace=options.namespace, name=CERTIFICATE, hosts=hosts
        )
        self._server = WebhookServer(
            {PATH: self._book_judge},
            host=options.host,
            port=options.port,
            context=build_server_context(Configuration().tls),
            drain_seconds=options.drain_seconds,
        )
        self.registered = asyncio.Event()
        """Set once the API server calls the guard."""

    def _book_judge(self, request: Any) -> Any:
        verdict = self._book.judge(request)
        if verdict.errors:
            log.warning(
                "refused an old copy",
                kind=request.kind,
                object=f"{request.namespace}/{request.name}",
                operation=request.operation,
            )
        return verdict

    async def run(self) -> None:
        """Guard until cancelled.

        Before it answers the first request, it lists existing objects and reads the marks that an
        earlier guard wrote. After the last answer it writes the marks for the next guard.
        """
        self._book = EpochBook(await self._read_marks(), is_held=self._is_held)
        informers = [self._follow(resource) for resource in self._resources]
        self._server.show(await self._certificates.load())
        await self._server.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in informers:
                    tasks.create_task(informer.run(), name=f"guard {informer.resource.plural}")
                for informer in informers:
                    await _settle(informer)
                self._server.knowing.set()
                tasks.create_task(self._keep_marks(), name="guard marks")
                await self._look_after()
        finally:
            await self._server.stop()
            await self._write_last_marks()

    def _follow(self, resource: Resource) -> Informer[dict[str, Any]]:
        informer = Informer[dict[str, Any]](
            self._client, resource, label_selector=MULTIKUEUE_ORIGIN
        )
        informer.add_handler(partial(self._see, resource.kind))
        return informer

    def _see(self, kind: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        self._book.see(kind, new or old or {})

    def _is_held(self, kind: str, obj: Mapping[str, Any]) -> bool:
        known = self._kinds.get(kind)
        return is_suspended(kind, obj) or (known is not None and known.is_suspended(dict(obj)))

    # ------------------------------------------------------------ marks

    async def _read_marks(self) -> dict[str, str]:
        try:
            found = await self._client.get(CONFIG_MAPS, NAME, namespace=self._options.namespace)
        except NotFound:
            return {}
        try:
            marks = json.loads((found.get("data") or {}).get(MARKS) or "{}")
        except ValueError:
            marks = None
        if not isinstance(marks, dict):
            log.warning("marks of an earlier guard cannot be read", config_map=NAME)
            return {}
        return {str(name): str(epoch) for name, epoch in marks.items()}

    async def _keep_marks(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            if self._book.version == self._written:
                continue
            self._written = await REGISTRATION.run(
                self._write_marks, on=KubeError, tell=_tell("marks not written, retrying")
            )

    async def _write_last_marks(self) -> None:
        if self._book.version == self._written:
            return
        try:
            async with asyncio.timeout(LAST_WRITE_SECONDS):
                await self._write_marks()
        except (KubeError, TimeoutError) as error:
            log.warning("the marks of the last second are not written", error=str(error))

    async def _write_marks(self) -> int:
        """Write the marks; return their version."""
        version = self._book.version
        data = {MARKS: json.dumps(self._book.marks, separators=(",", ":"))}
        namespace = self._options.namespace
        try:
            await self._client.patch(CONFIG_MAPS, NAME, {"data": data}, namespace=namespace)
        except NotFound:
            metadata = {"name": NAME, "namespace": namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            try:
                await self._client.create(CONFIG_MAPS, body)
            except AlreadyExists:
                await self._client.patch(CONFIG_MAPS, NAME, {"data": data}, namespace=namespace)
        return version

    # ------------------------------------------------------------ registration

    async def _look_after(self) -> None:
        tell = _tell("guard not registered, retrying")
        while True:
            serving = await REGISTRATION.run(
                self._register, on=(KubeError, NotRegisteredError), tell=tell
            )
            self._server.show(serving)
            self.registered.set()
            await asyncio.sleep(CHECK_SECONDS)

    async def _register(self) -> Serving:
        serving = await self._certificates.load()
        wanted = build_configuration(self._resources, self._address(), serving.authority)
        trust = CertificateTrust(serving.certificate, serving.key, self._address().host)
        problem = await ensure_configuration(self._client, VALIDATING_WEBHOOKS, wanted, trust)
        if problem is not None:
            raise NotRegisteredError(problem)
        return serving

    def _address(self) -> Address:
        if self._options.by_url:
            return Address(url=f"https://{self._options.host}:{self._server.port}")
        return Address(service_name=NAME, service_namespace=self._options.namespace)


async def _settle(informer: Informer[dict[str, Any]]) -> None:
    """Wait until the objects of a kind are known, or cannot be: one kind must not hold the rest."""
    forbidden = asyncio.Event()

    def look(informer: Informer[dict[str, Any]]) -> None:
        if isinstance(informer.last_error, Forbidden):
            forbidden.set()

    informer.add_listener(look)
    look(informer)
    async with asyncio.TaskGroup() as tasks:
        waits = [tasks.create_task(each.wait()) for each in (informer.settled, forbidden)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
    if not informer.settled.is_set():
        log.warning(
            "not allowed to follow a kind, so its older objects are not known; apply "
            "config/worker-guard again",
            resource=informer.resource.plural,
            error=str(informer.last_error),
        )


def _tell(what: str) -> Callable[[BaseException], None]:
    return lambda error: log.warning(what, error=str(error))


def build_configuration(
    resources: Sequence[Resource], address: Address, authority: bytes
) -> dict[str, Any]:
    """Return the webhook configuration, which covers only objects with an origin label."""
    rules = [
        {
            "apiGroups": [resource.group],
            "apiVersions": [resource.version],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": [resource.plural],
            "scope": "Namespaced",
        }
        for resource in resources
    ]
    ours = {"matchExpressions": [{"key": MULTIKUEUE_ORIGIN, "operator": "Exists"}]}
    hook = {
        "name": "guard.multiqueue.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": address.client_config(PATH, authority),
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": ours,
        "rules": rules,
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": "multiqueue"}},
        "webhooks": [hook],
    }
