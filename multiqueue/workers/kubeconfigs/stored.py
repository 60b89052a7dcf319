"""Reads the manager's stored configuration, and the kubeconfigs of its workers."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from multiqueue.api.v1beta2 import MultiKueueCluster
from multiqueue.api.validation.access import items, mapping, text
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.manager_names import DEPLOYMENT, DEPLOYMENTS
from multiqueue.workers.kubeconfigs.credentials import (
    KubeconfigRefusal,
    SafeKubeconfig,
    check_secret,
)

if TYPE_CHECKING:
    from multiqueue.api.config import Configuration
    from multiqueue.api.validation.access import Object

CONFIG_MAP, CONFIG_KEY = "kueue-manager-config", "controller_manager_config.yaml"
WORKER_SECONDS = 5.0
"""How long one worker may take to answer."""


def mounted_config_map(deployment: Object | None) -> str:
    """Return the name of the ConfigMap that a Deployment mounts; kustomize adds a hash to it."""
    pod = mapping(deployment, "spec", "template", "spec")
    for _, volume in items(pod.get("volumes")):
        name = text(mapping(volume, "configMap").get("name"))
        if name.startswith(CONFIG_MAP):
            return name
    return CONFIG_MAP


async def read_config(client: KubeClient, namespace: str) -> Configuration | None:
    """Return the manager's configuration from its ConfigMap; None if it cannot be read.

    The Deployment says which ConfigMap that is; if it cannot be read, the one without a hash.

    Raises:
        ConfigurationError: it is invalid.
    """
    from multiqueue.api.config import load_configuration

    deployment: Object | None = None
    with suppress(Forbidden, NotFound):
        deployment = await client.get(DEPLOYMENTS, DEPLOYMENT, namespace=namespace)
    name = mounted_config_map(deployment)
    try:
        config_map = await client.get(resources.CONFIG_MAPS, name, namespace=namespace)
    except (Forbidden, NotFound):
        return None
    content = text(mapping(config_map, "data").get(CONFIG_KEY))
    return load_configuration(content) if content else None


async def read_stored(
    client: KubeClient, name: str, namespace: str, now: datetime
) -> SafeKubeconfig | KubeconfigRefusal:
    """Read the kubeconfig in a Secret, and check it as the manager does.

    The check prevents that credentials go to a server to which the manager would not send them. The
    configuration is read only if the check fails, since it may allow a proxy.

    Raises:
        KubeError: the Secret may not be read.
    """
    try:
        secret: Object | None = await client.get(resources.SECRETS, name, namespace=namespace)
    except NotFound:
        secret = None
    check = partial(check_secret, secret, name, namespace, now)
    found = check(proxies=())
    if isinstance(found, KubeconfigRefusal):
        found = check(proxies=await _read_allowed_proxies(client, namespace))
    return found


async def worker_credentials(
    client: KubeClient, cluster: MultiKueueCluster, namespace: str, now: datetime
) -> Credentials:
    """Return the manager's credentials for a worker, read with the rights of the client.

    Raises:
        KubeError: the Secret may not be read.
        ValueError: there is no such Secret, or it must not be used.
    """
    source = cluster.spec.cluster_source.kube_config
    if source is None or source.location_type != "Secret":
        raise ValueError("its kubeconfig is not in a Secret, so only the manager can look")
    found = await read_stored(client, source.location, namespace, now)
    if isinstance(found, KubeconfigRefusal):
        raise ValueError(f"{found.reason}: {found.message}")  # noqa: TRY004 - no error of types
    return await Credentials.from_kubeconfig_dict(found.config)


async def _read_allowed_proxies(client: KubeClient, namespace: str) -> tuple[str, ...]:
    from multiqueue.api.config import ConfigurationError

    try:
        config = await read_config(client, namespace)
    except ConfigurationError:
        return ()
    return config.multi_kueue.allowed_proxies if config is not None else ()
