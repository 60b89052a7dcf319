"""Kubeconfigs for this server: one cluster, one user, everything inline."""

import base64
from typing import Any


def build_kubeconfig(
    *,
    url: str,
    authority: bytes | None,
    token: str,
    name: str = "multiqueue",
    namespace: str = "default",
) -> dict[str, Any]:
    """A kubeconfig as an object; without an authority the server speaks plain HTTP."""
    cluster: dict[str, Any] = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    context = {"cluster": name, "user": f"{name}-admin", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": f"{name}-admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
