"""How an API server reaches us, and what it is told already. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from multiqueue.api.names import WEBHOOK_PROBLEM

REMEDY = (
    "put the authority that signed tls.crt into ca.crt beside it (webhook.certDir) or into the "
    "caBundle, or set internalCertManagement.enable: true"
)
"""What to do about a certificate that is not trusted."""
EXACT = frozenset({"namespaceSelector", "objectSelector"})
"""Every term counts: one that is left over from another configuration hides objects from us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A Service in the cluster, or a URL outside of it."""

    url: str = ""
    service_name: str = ""
    service_namespace: str = ""

    @property
    def host(self) -> str:
        """The name that the certificate must be good for."""
        if self.url:
            return urlsplit(self.url).hostname or ""
        return f"{self.service_name}.{self.service_namespace}.svc"

    def client_config(self, path: str, authority: bytes) -> dict[str, Any]:
        """Return the clientConfig of an endpoint."""
        if self.url:
            config: dict[str, Any] = {"url": f"{self.url}{path}"}
        else:
            config = {
                "service": {
                    "name": self.service_name,
                    "namespace": self.service_namespace,
                    "path": path,
                    "port": 443,
                }
            }
        if authority:
            config["caBundle"] = base64.b64encode(authority).decode()
        return config


def bundle_of(client_config: Mapping[str, Any] | None) -> bytes:
    """Return the authorities that a clientConfig names; empty where it names none."""
    try:
        return base64.b64decode((client_config or {}).get("caBundle") or "")
    except binascii.Error:
        return b""


def covers(current: Any, wanted: Any) -> bool:
    """Whether what is there says at least what we want; the API server adds defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(current, Mapping) and all(
            current.get(key) == value if key in EXACT else covers(current.get(key), value)
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(current, list)
            and len(current) == len(wanted)
            and all(covers(c, w) for c, w in zip(current, wanted, strict=True))
        )
    return bool(current == wanted)


def build_problem_patch(obj: Mapping[str, Any], problem: str | None) -> dict[str, Any]:
    """Return the merge patch by which an object says why we are not asked; empty: it does."""
    told = ((obj.get("metadata") or {}).get("annotations") or {}).get(WEBHOOK_PROBLEM)
    return {} if told == problem else {"metadata": {"annotations": {WEBHOOK_PROBLEM: problem}}}
