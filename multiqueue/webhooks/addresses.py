"""How an API server reaches us, and whether what it is told already says so. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXACT = frozenset({"namespaceSelector", "objectSelector"})
"""Every term counts: one that is left over from another configuration hides objects from us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A Service in the cluster, or a URL outside of it."""

    url: str = ""
    service_name: str = ""
    service_namespace: str = ""

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
