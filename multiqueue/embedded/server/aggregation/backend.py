"""The backend of an aggregated group version, and its address. Reads the store only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.embedded.server.builtin.api_service import AVAILABLE
from multiqueue.embedded.server.builtin.columns import is_true
from multiqueue.embedded.server.store import ObjectStore

Services = Mapping[tuple[str, str], str]
"""(namespace, name) of a Service -> base URL, for Services with a configured URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """An APIService that names a Service."""

    name: str
    group: str
    version: str
    namespace: str
    service: str
    port: int
    authority: str
    """PEM in base64; empty: the system's authorities."""
    insecure: bool
    priorities: tuple[int, int]
    """Priority of the group, and of the version in it; higher ones come first in discovery."""
    available: bool

    @property
    def server_name(self) -> str:
        """Return the name in the backend's certificate."""
        return f"{self.service}.{self.namespace}.svc"

    @property
    def path(self) -> str:
        """``/apis/<group>/<version>``."""
        return f"/apis/{self.group}/{self.version}"


class Unresolved(Exception):  # noqa: N818 - a finding
    """A Service has no address; with the reason and message of the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def read_backend(obj: Mapping[str, Any]) -> Backend | None:
    """Return the backend of an APIService; None if this server serves it."""
    spec = obj["spec"]
    service = spec.get("service")
    if service is None:
        return None
    return Backend(
        name=obj["metadata"]["name"],
        group=spec.get("group", ""),
        version=spec["version"],
        namespace=service["namespace"],
        service=service["name"],
        port=service["port"],
        authority=spec.get("caBundle") or "",
        insecure=bool(spec.get("insecureSkipTLSVerify")),
        priorities=(spec["groupPriorityMinimum"], spec["versionPriority"]),
        available=is_true(obj, AVAILABLE),
    )


def find_address(backend: Backend, store: ObjectStore, services: Services) -> str:
    """Return the base URL of a backend.

    A Service with a configured URL has that URL. A Service of type ExternalName has that host. Any
    other Service has no address here: nothing answers at cluster addresses and endpoints.

    Raises:
        Unresolved: the Service has no address.
    """
    namespace, name = backend.namespace, backend.service
    if (mapped := services.get((namespace, name))) is not None:
        return mapped.rstrip("/")
    where = f'service/{name} in "{namespace}"'
    entry = store.get(("", "services"), namespace, name)
    if entry is None:
        raise Unresolved("ServiceNotFound", f"{where} is not present")
    spec = entry.decode().get("spec") or {}
    if spec.get("type") == "ExternalName":
        return f"https://{_bracketed(spec.get('externalName', ''))}:{backend.port}"
    if all(each["port"] != backend.port for each in spec.get("ports") or ()):
        message = f"{where} is not listening on port {backend.port}"
        raise Unresolved("ServicePortError", message)
    raise Unresolved("EndpointsNotFound", f"cannot find endpoints for {where}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
