"""Clients of workers for people's requests: pods, logs and events of jobs there.

They have connections and a budget of their own, so that such requests never delay a dispatch. They
work on every replica of the manager: the leader uses the credentials of its sessions, the others
read the kubeconfigs and ClusterProfiles, which all of them may.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from multiqueue.api.config.gates import Gate
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import CredentialsError, NotFound, TransportError
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.resources import CLUSTER_PROFILES
from multiqueue.workers.connections.attempt import open_credentials
from multiqueue.workers.connections.fleet import Fleet
from multiqueue.workers.kubeconfigs.cluster_profiles import check_profile
from multiqueue.workers.kubeconfigs.credentials import (
    PATH_PREFIX,
    KubeconfigRefusal,
    SafeKubeconfig,
)
from multiqueue.workers.kubeconfigs.sources import KubeconfigFiles, load_kubeconfig

REQUESTS_PER_SECOND, BURST = 20.0, 100.0
"""Limits for all people together, for one worker."""
REQUEST_SECONDS = 10.0


class WorkerAccess:
    """Opens clients of workers.

    Args:
        context: The manager's context.
        fleet: The connections to the workers, if this manager leads.
        path_prefix: The only folder in which kubeconfig files may be.
    """

    def __init__(
        self, context: ManagerContext, fleet: Fleet, *, path_prefix: Path = PATH_PREFIX
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._files = KubeconfigFiles(path_prefix)
        self._limiters: dict[str, RateLimiter] = {}
        # By cluster: credentials of a program are used until they expire, however often people ask.
        self._given: dict[str, tuple[SafeKubeconfig, Credentials]] = {}

    @asynccontextmanager
    async def open(self, cluster: str) -> AsyncIterator[KubeClient]:
        """Open a client of a worker.

        Raises:
            TransportError: The worker is not connected.
            CredentialsError: Its kubeconfig cannot be used.
        """
        credentials = await self._find_credentials(cluster)
        limiter = self._limiters.setdefault(
            cluster, RateLimiter(rate=REQUESTS_PER_SECOND, burst=BURST)
        )
        client = KubeClient(
            credentials,
            limiter=limiter,
            user_agent="multiqueue-remote",
            default_timeout=REQUEST_SECONDS,
        )
        async with client:
            yield client

    async def _find_credentials(self, cluster: str) -> Credentials:
        session = self._fleet.find_session(cluster)
        if session is not None:
            return session.client.credentials
        connection = self._fleet.find(cluster)
        if connection is not None:
            status = connection.status
            raise TransportError(status.message if status is not None else "not connected yet")
        return await self._load_credentials(cluster)

    async def _load_credentials(self, cluster: str) -> Credentials:
        found = self._context.informers.multikueue_clusters.store.get(cluster)
        if found is None:
            self._limiters.pop(cluster, None)
            self._given.pop(cluster, None)
            raise TransportError(f'there is no MultiKueueCluster "{cluster}"')
        source = found.spec.cluster_source.kube_config
        if source is None:
            reference = found.spec.cluster_source.cluster_profile_ref
            return await self._run_program(cluster, reference.name if reference else "")
        checked = await load_kubeconfig(source, self._context, self._files)
        if isinstance(checked, KubeconfigRefusal):
            raise CredentialsError(checked.message)
        return await open_credentials(checked, self._context.clock)

    async def _run_program(self, cluster: str, profile: str) -> Credentials:
        """Return the credentials that the program of a ClusterProfile's provider returns."""
        config, namespace = self._context.config, self._context.config.namespace
        if not config.gates.enabled(Gate.MULTIKUEUE_CLUSTER_PROFILE):
            raise CredentialsError("its ClusterProfile needs the gate MultiKueueClusterProfile")
        try:
            listed = await self._context.client.list(CLUSTER_PROFILES, namespace=namespace)
        except NotFound as error:
            raise CredentialsError("this cluster serves no ClusterProfiles") from error
        found = next((p for p in listed.items if p["metadata"]["name"] == profile), None)
        checked = check_profile(found, profile, namespace, config.multi_kueue)
        if isinstance(checked, KubeconfigRefusal):
            raise CredentialsError(checked.message)
        known = self._given.get(cluster)
        if known is None or known[0] != checked:
            known = (checked, await open_credentials(checked, self._context.clock))
            self._given[cluster] = known
        return known[1]
