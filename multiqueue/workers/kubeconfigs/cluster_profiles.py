"""Connections from ClusterProfiles, with credentials that a program returns.

The configuration names the program. Pure.

Parity: M-33, M-215, M-216.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from multiqueue.api.conditions import ClusterReason
from multiqueue.api.config.types import AccessProvider, ClusterProfile, MultiKueue
from multiqueue.kube.exec_credentials import Endpoint, ExecPlugin
from multiqueue.kube.kubeconfig import shown
from multiqueue.workers.kubeconfigs.addresses import find_address_problems, identify_server
from multiqueue.workers.kubeconfigs.credentials import KubeconfigRefusal, SafeKubeconfig
from multiqueue.workers.kubeconfigs.inline_data import find_bad_data

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a cluster that is passed to the program."""
Json = Mapping[str, Any]


def check_profile(
    profile: Json | None,
    name: str,
    namespace: str,
    settings: MultiKueue,
) -> SafeKubeconfig | KubeconfigRefusal:
    """Return how to connect to the cluster of a profile, or why that is not possible.

    Args:
        profile: The ClusterProfile, which somebody else wrote.
        name: Its name.
        namespace: Its namespace.
        settings: The manager's settings, with credential programs and allowed proxies.
    """
    where = f'ClusterProfile "{namespace}/{name}"'
    if profile is None:
        return _bad(f"{where} not found")
    offered = list_providers(profile)
    known = list_configured(settings.cluster_profile)
    for provider in known:
        entry = next((o for o in offered if o.get("name") == provider.name), None)
        if entry is not None:
            return _check_cluster(entry.get("cluster"), provider, where, settings)
    names = ", ".join(sorted(shown(o.get("name")) for o in offered)) or "none"
    wanted = ", ".join(provider.name for provider in known) or "none"
    return _bad(
        f"{where} offers access by {names}; multiKueue.clusterProfile.accessProviders has {wanted}"
    )


def list_configured(settings: ClusterProfile | None) -> tuple[AccessProvider, ...]:
    """Return the access providers of the configuration, also under their old name."""
    if settings is None:
        return ()
    return settings.access_providers or settings.credentials_providers


def list_providers(profile: Json) -> list[Json]:
    """Return the access providers of a profile, also under their old name."""
    status = profile.get("status")
    if not isinstance(status, Mapping):
        return []
    found = status.get("accessProviders") or status.get("credentialProviders")
    entries = found if isinstance(found, list) else ()
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _check_cluster(
    cluster: object, provider: AccessProvider, where: str, settings: MultiKueue
) -> SafeKubeconfig | KubeconfigRefusal:
    """Apply the rules for addresses in kubeconfigs to that of a profile (M-33)."""
    if not isinstance(cluster, Mapping):
        return _refuse(f'{where}: provider "{provider.name}" has no cluster')
    for key, what in (
        ("insecure-skip-tls-verify", "does not verify TLS; give it the server's CA"),
        ("certificate-authority", "uses a CA file; put the CA inline"),
    ):
        if cluster.get(key):
            return _refuse(f"{where}: cluster {what}")
    for problem in find_address_problems(where, cluster, settings.allowed_proxies):
        return _refuse(problem)
    problem = find_bad_data(cluster)
    if problem:
        return _refuse(f"{where}: {problem}")
    if provider.exec_config.interactive_mode == "Always":
        return _refuse(f'{where}: provider "{provider.name}" wants a terminal; there is none')
    plugin = _build_plugin(cluster, provider)
    return SafeKubeconfig(
        config={"cluster": dict(cluster)}, server=identify_server(cluster), plugin=plugin
    )


def _build_plugin(cluster: Json, provider: AccessProvider) -> ExecPlugin:
    config = provider.exec_config
    told: dict[str, Any] | None = None
    if config.provide_cluster_info:
        told = {key: value for key, value in cluster.items() if key != "extensions"}
        extensions = cluster.get("extensions")
        for extension in extensions if isinstance(extensions, list) else ():
            if isinstance(extension, Mapping) and extension.get("name") == EXEC_EXTENSION:
                told["config"] = extension.get("extension")
    return ExecPlugin(
        command=config.command,
        args=config.args or (),
        env=tuple((entry.get("name", ""), entry.get("value", "")) for entry in config.env or ()),
        api_version=config.api_version,
        cluster=told,
        install_hint=config.install_hint,
    )


def build_endpoint(source: SafeKubeconfig) -> Endpoint:
    """Return the address at which to use the credentials of a checked profile."""
    cluster = source.config["cluster"]
    data = cluster.get("certificate-authority-data")
    return Endpoint(
        server=cluster["server"],
        ca=base64.b64decode("".join(data.split())) if data else None,
        server_name=cluster.get("tls-server-name") or None,
        proxy=cluster.get("proxy-url") or None,
    )


def _bad(message: str) -> KubeconfigRefusal:
    return KubeconfigRefusal(reason=ClusterReason.BAD_CLUSTER_PROFILE, message=message)


def _refuse(message: str) -> KubeconfigRefusal:
    return KubeconfigRefusal(reason=ClusterReason.BAD_REST_CONFIG, message=message)
