"""Gives each MultiKueueCluster a connection from its kubeconfig, and an Active condition.

Parity: M-10 to M-14, M-30 to M-36, M-41, M-42, M-222.
Deviates: a second name of the same worker is refused; see `servers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import ACTIVE, ClusterReason, find_condition, set_condition
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.references import reference_of
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS
from multiqueue.workers.clusters.conditions import write_conditions
from multiqueue.workers.clusters.notes import (
    ClusterNote,
    apply_notes,
    find_next_warning,
    find_server,
    list_news,
    note_expiry,
    note_server,
    note_twins,
)
from multiqueue.workers.connections.connection import WorkerConnection
from multiqueue.workers.connections.fleet import Fleet, FleetListener
from multiqueue.workers.connections.servers import HERE
from multiqueue.workers.connections.status import first_lost_at
from multiqueue.workers.kubeconfigs.addresses import identify_server
from multiqueue.workers.kubeconfigs.credentials import (
    PATH_PREFIX,
    ConnectionStatus,
    KubeconfigRefusal,
    SafeKubeconfig,
)
from multiqueue.workers.kubeconfigs.sources import PATH, ClusterSources

CONCURRENCY = 8
FILE_SECONDS = 5.0
"""How often a kubeconfig file is read again: files of mounted Secrets are replaced by renaming
directories, and few file systems report that."""
MAX_WAIT_SECONDS = 3600.0
"""Longest wait for a warning, however far away it is: the clock may be set meanwhile."""
RETIRED_SECONDS = 5.0
"""How often a worker without MultiKueueCluster is checked, until no object of ours is there."""


log = structlog.get_logger("multiqueue.dispatch")


class ClusterReconciler:
    """Keeps connections and conditions in step with the MultiKueueClusters.

    Args:
        context: The manager's context.
        fleet: The workers.
        path_prefix: The only folder in which kubeconfig files may be.
    """

    name = "multikueue-clusters"

    def __init__(
        self, context: ManagerContext, fleet: Fleet, *, path_prefix: Path = PATH_PREFIX
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._servers = fleet.servers
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=CONCURRENCY, metrics=context.metrics
        )
        context.informers.multikueue_clusters.add_handler(self._on_cluster)
        self._sources = ClusterSources(context, self._reconciler.queue.add, path_prefix=path_prefix)
        fleet.add_listener(
            FleetListener(
                on_remote=lambda _: None,
                on_connection=self._reconciler.queue.add,
                on_room=lambda: None,
            )
        )

    async def run(self) -> None:
        """Work until cancelled."""
        informers = self._context.informers
        await wait_settled(informers.multikueue_clusters, informers.secrets, informers.namespaces)
        own = informers.namespaces.store.get("kube-system")
        self._fleet.sign(
            own["metadata"].get("uid", "") if own is not None else "",
            identify_server({"server": self._context.client.credentials.server}),
        )
        async with asyncio.TaskGroup() as tasks:
            if self._sources.profiles is not None:
                tasks.create_task(self._sources.profiles.run(), name="cluster profiles")
                await self._sources.profiles.settled.wait()
            await self._run()

    async def _run(self) -> None:
        # All are loaded before any is judged: a second name must not connect even for a moment.
        clusters = self._context.informers.multikueue_clusters.store.list()
        async with asyncio.TaskGroup() as loads:
            tasks = [loads.create_task(self._load(cluster)) for cluster in clusters]
        for cluster, task in zip(clusters, tasks, strict=True):
            self._note_server(cluster, task.result())
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Bring one connection and its conditions up to date."""
        cluster = self._context.informers.multikueue_clusters.store.get(name)
        metrics = self._context.metrics
        if cluster is None or cluster.metadata.deletion_timestamp:
            timeout = self._context.config.multi_kueue.worker_lost_timeout
            if self._fleet.retire(name, give_up_after=timeout):
                metrics.worker_connected.forget(cluster=name)
                metrics.worker_health.forget(cluster=name)
                metrics.worker_credentials_expire_seconds.forget(cluster=name)
                metrics.worker_credentials_expiring.forget(cluster=name)
                self._judge_again(self._servers.update(("", name), None))
                return DONE
            return Result(requeue_after=RETIRED_SECONDS)
        source = await self._load(cluster)
        self._note_server(cluster, source)
        source = self._refuse_second_name(name, source)
        connection = self._fleet.ensure(
            name,
            lost_for=self._first_lost_for(cluster),
            known=find_server(cluster.status.conditions),
        )
        connection.configure(source)
        metrics.worker_connected.child(name).set(connection.session is not None)
        status = source.status if isinstance(source, KubeconfigRefusal) else connection.status
        in_use = connection.source or source
        notes = self._list_notes(connection, in_use)
        await self._write(cluster, status, notes, known=connection.known)
        self._tell(cluster, notes)
        return self._plan(cluster, in_use)

    async def _load(self, cluster: api.MultiKueueCluster) -> SafeKubeconfig | KubeconfigRefusal:
        """Load a worker's credentials; if this program raises, refuse them and say so."""
        try:
            return await self._sources.load(cluster)
        except Exception as error:  # one MultiKueueCluster must not stop the others
            log.exception("kubeconfig not read", worker=cluster.metadata.name)
            self._context.metrics.object_failures_total.child(MULTIKUEUE_CLUSTERS.plural).inc()
            return KubeconfigRefusal(
                reason=ClusterReason.BAD_KUBE_CONFIG,
                message=(
                    f"the kubeconfig cannot be read: internal error: {type(error).__name__}; see "
                    "the manager's log, and write the kubeconfig anew"
                ),
            )

    def _list_notes(
        self, connection: WorkerConnection, source: SafeKubeconfig | KubeconfigRefusal
    ) -> list[ClusterNote]:
        """Return the other conditions, and export when the credentials end."""
        notes = []
        now, name = self._context.clock.now, connection.name
        expire_seconds = self._context.metrics.worker_credentials_expire_seconds
        expiring = self._context.metrics.worker_credentials_expiring
        if isinstance(source, SafeKubeconfig):
            note = note_expiry(source, now())
            notes.append(note)
            expiring.child(name).set(note.holds)
        else:
            expiring.forget(cluster=name)
        if isinstance(source, SafeKubeconfig) and source.expiries:
            left = partial(source.expiries[0].seconds_left, now)
            expire_seconds.child(name).set_function(left)
        else:
            expire_seconds.forget(cluster=name)
        if connection.session is not None:
            notes.append(note_twins(connection.session.twins, self._fleet.owner))
        return notes

    def _tell(self, cluster: api.MultiKueueCluster, notes: Iterable[ClusterNote]) -> None:
        regarding = reference_of(MULTIKUEUE_CLUSTERS, cluster.metadata)
        for note in list_news(cluster.status.conditions, notes):
            self._context.recorder.event(regarding, "Warning", note.type_, note.message)

    def _plan(
        self, cluster: api.MultiKueueCluster, source: SafeKubeconfig | KubeconfigRefusal
    ) -> Result:
        """Return when to reconcile again if nothing changes."""
        waits = []
        kubeconfig = cluster.spec.cluster_source.kube_config
        if kubeconfig is not None and kubeconfig.location_type == PATH:
            waits.append(FILE_SECONDS)
        now = self._context.clock.now()
        warn_at = find_next_warning(source, now) if isinstance(source, SafeKubeconfig) else None
        if warn_at is not None:
            waits.append(min((warn_at - now).total_seconds(), MAX_WAIT_SECONDS))
        return Result(requeue_after=min(waits)) if waits else DONE

    def _note_server(
        self, cluster: api.MultiKueueCluster, source: SafeKubeconfig | KubeconfigRefusal
    ) -> None:
        age = (cluster.metadata.creation_timestamp, cluster.metadata.name)
        server = source.server if isinstance(source, SafeKubeconfig) else None
        connection = self._fleet.find(cluster.metadata.name)
        connected = connection is not None and connection.session is not None
        known = connection.known if connection is not None else ""
        self._servers.remember(
            cluster.metadata.name, known or find_server(cluster.status.conditions)
        )
        self._judge_again(self._servers.update(age, server, connected=connected))

    def _judge_again(self, names: Iterable[str]) -> None:
        for name in names:
            self._reconciler.queue.add(name)

    def _refuse_second_name(
        self, name: str, source: SafeKubeconfig | KubeconfigRefusal
    ) -> SafeKubeconfig | KubeconfigRefusal:
        """Refuse a second name of a worker: the two would delete each other's copies."""
        elder = self._servers.find_elder(name)
        if elder is None or isinstance(source, KubeconfigRefusal):
            return source
        if elder == HERE:
            return KubeconfigRefusal(
                reason=ClusterReason.BAD_KUBE_CONFIG,
                message=(
                    "kubeconfig leads to the manager's own cluster, which cannot be a worker; give "
                    "it the kubeconfig of another cluster, or run jobs here in a ClusterQueue "
                    "without the MultiKueue check"
                ),
            )
        if self._servers.is_past(name, elder):
            message = (
                f'kubeconfig leads to the API server that MultiKueueCluster "{elder}" was last '
                f'connected to, and its workloads may still be there; wait until "{elder}" is '
                "connected, delete it, or give this one the kubeconfig of another cluster"
            )
        else:
            message = (
                f'kubeconfig leads to the same API server as MultiKueueCluster "{elder}"; '
                "delete one of the two, or give this one the kubeconfig of another cluster"
            )
        return KubeconfigRefusal(reason=ClusterReason.BAD_KUBE_CONFIG, message=message)

    def _first_lost_for(self, cluster: api.MultiKueueCluster) -> timedelta:
        condition = find_condition(cluster.status.conditions, ACTIVE)
        is_false = condition is not None and condition.status == "False"
        now = self._context.clock.now()
        return now - first_lost_at(
            condition.transitioned_at if condition is not None and is_false else None,
            now=now,
            timeout=self._context.config.multi_kueue.worker_lost_timeout,
        )

    async def _write(
        self,
        cluster: api.MultiKueueCluster,
        status: ConnectionStatus | None,
        notes: Iterable[ClusterNote],
        *,
        known: str,
    ) -> None:
        conditions, now = cluster.status.conditions, self._context.clock.now()
        generation = cluster.metadata.generation
        if status is not None:
            conditions = set_condition(
                conditions,
                type_=ACTIVE,
                status=status.active,
                reason=status.reason,
                message=status.message,
                now=now,
                observed_generation=generation,
            )
        conditions = apply_notes(conditions, notes, now=now, observed_generation=generation)
        conditions = note_server(conditions, known, now=now, observed_generation=generation)
        await write_conditions(self._context, cluster, conditions)

    def _on_cluster(
        self, old: api.MultiKueueCluster | None, new: api.MultiKueueCluster | None
    ) -> None:
        cluster = new or old
        assert cluster is not None
        if old is not None and new is not None and _only_status_differs(old, new):
            return
        self._reconciler.queue.add(cluster.metadata.name)


def _only_status_differs(old: api.MultiKueueCluster, new: api.MultiKueueCluster) -> bool:
    return (
        old.spec == new.spec
        and old.metadata.uid == new.metadata.uid
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )
