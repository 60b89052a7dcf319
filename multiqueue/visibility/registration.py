"""Registers the visibility API: its APIServices and, outside of a cluster, a Service."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import API_SERVICES, SERVICES, Resource
from multiqueue.visibility.fleet.resources import GROUP as FLEET_GROUP
from multiqueue.visibility.fleet.resources import VERSION as FLEET_VERSION
from multiqueue.visibility.refusals import GROUP
from multiqueue.visibility.remote_documents import GROUP as REMOTE_GROUP
from multiqueue.visibility.remote_documents import VERSION as REMOTE_VERSION
from multiqueue.visibility.summary import VERSIONS

SERVICE_NAME = "kueue-visibility-server"
"""The Service in front of managers in a cluster, from config/visibility."""
EXTERNAL_SERVICE_NAME = "kueue-visibility-external"
"""The Service that leads out of the cluster, to a manager that was started by hand."""
SERVED = (
    *((GROUP, version) for version in VERSIONS),
    (REMOTE_GROUP, REMOTE_VERSION),
    (FLEET_GROUP, FLEET_VERSION),
)
PRIORITIES = {"groupPriorityMinimum": 100, "versionPriority": 100}
"""Upstream's priorities.

They are below those of custom resources, so that ``kubectl get clusterqueues`` lists the queues
themselves.
"""

log = structlog.get_logger(component="visibility")


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """The address of a manager outside of the cluster, as the API server reaches it."""

    host: str
    port: int


class ApiServiceRegistrar:
    """Keeps the APIServices up to date.

    In a cluster they are applied with the manager, and only the CA of our certificate is filled in.
    For a manager outside they are created, together with a Service of type ExternalName. The API
    server resolves such a Service itself, but it refuses loopback addresses as endpoints.
    """

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def ensure(self, authority: bytes, external: External | None) -> list[str]:
        """Write differences; return the names of APIServices that are missing.

        Args:
            authority: The CA in PEM; empty if something else injects it.
            external: The manager's address outside of a cluster, if it is outside.

        Raises:
            KubeError: the API server refuses, or cannot be asked.
        """
        spec: dict[str, Any] = {}
        if authority:
            spec["caBundle"] = base64.b64encode(authority).decode()
            spec["insecureSkipTLSVerify"] = None
        if external is not None:
            await self._ensure(SERVICES, self._service(external), create=True)
            spec["service"] = {
                "name": EXTERNAL_SERVICE_NAME,
                "namespace": self._namespace,
                "port": external.port,
            }
        missing = []
        for group, version in SERVED:
            name = f"{version}.{group}"
            whole = {"group": group, "version": version, **PRIORITIES, **spec}
            wanted = {
                "apiVersion": API_SERVICES.api_version,
                "kind": API_SERVICES.kind,
                "metadata": {"name": name},
                "spec": spec if external is None else whole,
            }
            if not await self._ensure(API_SERVICES, wanted, create=external is not None):
                missing.append(name)
        return missing

    def _service(self, external: External) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": EXTERNAL_SERVICE_NAME, "namespace": self._namespace},
            "spec": {"type": "ExternalName", "externalName": external.host},
        }

    async def _ensure(self, resource: Resource, wanted: dict[str, Any], *, create: bool) -> bool:
        """Write an object if it differs; return whether it exists now."""
        name = wanted["metadata"]["name"]
        namespace = wanted["metadata"].get("namespace")
        try:
            current = await self._client.get(resource, name, namespace=namespace)
        except NotFound:
            if create:
                created = {**wanted, "spec": _without_nulls(wanted["spec"])}
                created["metadata"] = {
                    **wanted["metadata"],
                    "labels": {"app.kubernetes.io/name": "multiqueue"},
                }
                await self._client.create(resource, created, namespace=namespace)
                log.info("registered", kind=resource.kind, name=name)
            return create
        if not _covers(current.get("spec") or {}, wanted["spec"]):
            await self._client.patch(resource, name, {"spec": wanted["spec"]}, namespace=namespace)
            log.info("registration updated", kind=resource.kind, name=name)
        return True


def _covers(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a spec contains the wanted fields; None marks a field that must be absent."""
    return all(
        not current.get(key) if value is None else current.get(key) == value
        for key, value in wanted.items()
    )


def _without_nulls(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if value is not None}
