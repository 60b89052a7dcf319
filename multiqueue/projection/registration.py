"""Objects that make a cluster a worker: the manager's account there, its kubeconfig here."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from multiqueue.api.names import PROJECTED_FROM, REGISTERED_AS, V1BETA2
from multiqueue.projection.worker_role import ACCOUNT, ACCOUNT_NAMESPACE, load_worker_role

Json = dict[str, Any]
KUBECONFIG_KEY = "kubeconfig"
MASK = "***"
_CLUSTER_KEYS = ("server", "certificate-authority-data", "tls-server-name", "proxy-url")


def account_manifests() -> list[Json]:
    """Return the worker's namespace, account, role and binding, in order, without tokens."""
    return [dict(manifest) for manifest in load_worker_role() if manifest["kind"] != "Secret"]


def anchor_manifest(name: str, origin: str, *, long_lived: bool) -> Json:
    """Return the Secret on the worker to which a token is bound; the token ends with it.

    Args:
        name: The name of the MultiKueueCluster.
        origin: The manager's origin; other managers leave the Secret alone.
        long_lived: Whether the cluster puts a token without an end into the Secret.
    """
    metadata: Json = {
        "generateName": f"{ACCOUNT}-",
        "namespace": ACCOUNT_NAMESPACE,
        "labels": {PROJECTED_FROM: origin, REGISTERED_AS: name},
    }
    if long_lived:
        metadata["annotations"] = {"kubernetes.io/service-account.name": ACCOUNT}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "kubernetes.io/service-account-token" if long_lived else "Opaque",
    }


def anchor_selector(name: str, origin: str) -> str:
    """Return the label selector of a worker's anchors."""
    return f"{PROJECTED_FROM}={origin},{REGISTERED_AS}={name}"


def token_request(anchor: Mapping[str, Any], seconds: int) -> Json:
    """Return the request for a token that ends with its anchor, or after its lifetime."""
    metadata = anchor["metadata"]
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": seconds,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Secret",
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


def build_kubeconfig(cluster: Mapping[str, Any], token: str) -> Json:
    """Return a kubeconfig as a manager accepts it: an inline CA, a token, nothing else.

    Args:
        cluster: The cluster entry: server, certificate-authority-data and so on.
        token: The account's token.
    """
    kept = {key: cluster[key] for key in _CLUSTER_KEYS if cluster.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "worker",
        "clusters": [{"name": "worker", "cluster": kept}],
        "users": [{"name": ACCOUNT, "user": {"token": token}}],
        "contexts": [{"name": "worker", "context": {"cluster": "worker", "user": ACCOUNT}}],
    }


def kubeconfig_secret(name: str, namespace: str, kubeconfig: Mapping[str, Any]) -> Json:
    """Return the Secret with a worker's kubeconfig on the manager."""
    data = base64.b64encode(orjson.dumps(kubeconfig)).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "data": {KUBECONFIG_KEY: data},
    }


def cluster_manifest(name: str, secret: str) -> Json:
    """Return the MultiKueueCluster."""
    source = {"kubeConfig": {"locationType": "Secret", "location": secret}}
    return {
        "apiVersion": V1BETA2,
        "kind": "MultiKueueCluster",
        "metadata": {"name": name},
        "spec": {"clusterSource": source},
    }


def masked(manifest: Mapping[str, Any]) -> Json:
    """Return a manifest for display: values of Secrets are masked."""
    hidden = {
        key: dict.fromkeys(manifest[key], MASK) for key in ("data", "stringData") if key in manifest
    }
    return {**manifest, **hidden} if manifest.get("kind") == "Secret" else dict(manifest)
