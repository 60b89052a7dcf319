"""How the API server reaches the webhooks, and what their configuration says now. Pure."""

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
"""How to solve the problem of a certificate that is not trusted."""
EXACT = frozenset({"namespaceSelector", "objectSelector"})
"""Selectors compared in full: a term left from another configuration would hide objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A Service in the cluster, or a URL outside of it."""

    url: str = ""
    service_name: str = ""
    service_namespace: str = ""

    @property
    def host(self) -> str:
        """The host name that the certificate must be valid for."""
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
    """Return the CA bundle of a clientConfig; empty if it has none."""
    try:
        return base64.b64decode((client_config or {}).get("caBundle") or "")
    except binascii.Error:
        return b""


def covers(current: Any, wanted: Any) -> bool:
    """Whether the current value contains the wanted one; the API server adds defaults."""
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
    """Return the merge patch that notes a problem on an object; empty if it is noted already."""
    told = ((obj.get("metadata") or {}).get("annotations") or {}).get(WEBHOOK_PROBLEM)
    return {} if told == problem else {"metadata": {"annotations": {WEBHOOK_PROBLEM: problem}}}
