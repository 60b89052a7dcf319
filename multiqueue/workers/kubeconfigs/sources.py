"""Loads the credentials of the workers from Secrets, files and ClusterProfiles.

Each kubeconfig file is read in its own thread, so that a hanging mount delays no other file. The
threads that the event loop shares are not used: a few such files would occupy all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import ClusterReason
from multiqueue.api.config.gates import Gate
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.call_thread import PluginThread
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import CLUSTER_PROFILES
from multiqueue.workers.kubeconfigs.cluster_profiles import check_profile
from multiqueue.workers.kubeconfigs.credentials import (
    PATH_PREFIX,
    KubeconfigRefusal,
    SafeKubeconfig,
    check_kubeconfig,
    check_secret,
    read_file,
)

SECRET, PATH = "Secret", "Path"
Json = dict[str, Any]

log = structlog.get_logger("multiqueue.dispatch")


class ClusterSources:
    """Loads the kubeconfigs and ClusterProfiles that MultiKueueClusters name.

    ClusterProfiles are watched while their gate is on: only those of the manager's namespace, and
    as soon as their CRD exists (M-216 requires it before the start).

    Args:
        context: The manager's context.
        on_change: Called with the names of MultiKueueClusters whose source changed.
        path_prefix: The only folder in which kubeconfig files may be.
    """

    def __init__(
        self,
        context: ManagerContext,
        on_change: Callable[[str], None],
        *,
        path_prefix: Path = PATH_PREFIX,
    ) -> None:
        self._context = context
        self._on_change = on_change
        self._files = KubeconfigFiles(path_prefix)
        self.profiles: Informer[Json] | None = None
        if context.config.gates.enabled(Gate.MULTIKUEUE_CLUSTER_PROFILE):
            namespace = context.config.namespace
            self.profiles = Informer(context.client, CLUSTER_PROFILES, namespace=namespace)
            self.profiles.add_handler(self._on_profile)
        context.informers.secrets.add_handler(self._on_secret)

    async def load(self, cluster: api.MultiKueueCluster) -> SafeKubeconfig | KubeconfigRefusal:
        """Load and check the credentials of a worker; bad ones do not affect other workers."""
        try:
            return await self._load(cluster)
        except Exception:  # a bug must not take the other workers along
            log.exception("way to worker cannot be checked", worker=cluster.metadata.name)
            return KubeconfigRefusal(
                reason=ClusterReason.BAD_KUBE_CONFIG,
                message="spec.clusterSource leads to something that cannot be checked; the reason "
                "is in the manager's log",
            )

    async def _load(self, cluster: api.MultiKueueCluster) -> SafeKubeconfig | KubeconfigRefusal:
        source = cluster.spec.cluster_source
        if source.kube_config is None:
            reference = source.cluster_profile_ref
            return self._load_profile(reference.name if reference is not None else "")
        return await load_kubeconfig(source.kube_config, self._context, self._files)

    def _load_profile(self, name: str) -> SafeKubeconfig | KubeconfigRefusal:
        if self.profiles is None:
            return KubeconfigRefusal(
                reason=ClusterReason.CLUSTER_PROFILE_FEATURE_DISABLED,
                message=(
                    "spec.clusterSource.clusterProfileRef needs the gate MultiKueueClusterProfile"
                ),
            )
        namespace = self._context.config.namespace
        profile = self.profiles.store.get(f"{namespace}/{name}")
        return check_profile(profile, name, namespace, self._context.config.multi_kueue)

    def _on_secret(self, old: Json | None, new: Json | None) -> None:
        name = _name_of(new or old)
        for cluster in self._context.informers.multikueue_clusters.store.list():
            source = cluster.spec.cluster_source.kube_config
            if source is not None and (source.location_type, source.location) == (SECRET, name):
                self._on_change(cluster.metadata.name)

    def _on_profile(self, old: Json | None, new: Json | None) -> None:
        """Reload every cluster that refers to the profile (M-217)."""
        name = _name_of(new or old)
        for cluster in self._context.informers.multikueue_clusters.store.list():
            reference = cluster.spec.cluster_source.cluster_profile_ref
            if reference is not None and reference.name == name:
                self._on_change(cluster.metadata.name)


async def load_kubeconfig(
    source: api.KubeConfig, context: ManagerContext, files: KubeconfigFiles
) -> SafeKubeconfig | KubeconfigRefusal:
    """Read and check the kubeconfig that a MultiKueueCluster names."""
    location, namespace, now = source.location, context.config.namespace, context.clock.now()
    proxies = context.config.multi_kueue.allowed_proxies
    if source.location_type == PATH:
        data = await files.read(location)
        return (
            data
            if isinstance(data, KubeconfigRefusal)
            else check_kubeconfig(data, now, proxies=proxies)
        )
    secret = context.informers.secrets.store.get(f"{namespace}/{location}")
    return check_secret(secret, location, namespace, now, proxies=proxies)


def _name_of(obj: Json | None) -> str:
    assert obj is not None
    return str(obj["metadata"]["name"])


BUDGET = timedelta(seconds=3)
"""How long reading may take; an available file is read in less than a millisecond."""


class KubeconfigFiles:
    """The kubeconfig files of a manager.

    Args:
        prefix: The only folder in which they may be.
        budget: How long reading one may take.
    """

    def __init__(self, prefix: Path = PATH_PREFIX, *, budget: timedelta = BUDGET) -> None:
        self._prefix = prefix
        self._budget = budget
        self._reads: dict[str, asyncio.Future[bytes | KubeconfigRefusal]] = {}

    async def read(self, location: str) -> bytes | KubeconfigRefusal:
        """Read a file; while an earlier read of it hangs, no other is begun."""
        read = self._reads.get(location) or self._begin(location)
        await asyncio.wait({read}, timeout=self._budget.total_seconds())
        if read.done():
            return read.result()
        return KubeconfigRefusal(
            reason=ClusterReason.BAD_KUBE_CONFIG,
            message=f'kubeconfig file "{location}" could not be read within '
            f"{self._budget.total_seconds():g} s",
        )

    def _begin(self, location: str) -> asyncio.Future[bytes | KubeconfigRefusal]:
        thread = PluginThread(f"kubeconfig {location}")
        read = thread.call(lambda: read_file(location, self._prefix))
        thread.abandon()  # it ends after this one call
        self._reads[location] = read
        read.add_done_callback(lambda _: self._reads.pop(location, None))
        return read
