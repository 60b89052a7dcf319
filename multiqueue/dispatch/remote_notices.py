"""Notices of jobs that run on workers: told there, and answered there (P-57)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from multiqueue.api.names import JOB_UID, LAST_CHECKPOINT
from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.workers.connections.fleet import Fleet, FleetListener

OnReport = Callable[[str, str], None]
"""Called with the uid of a job on the manager, and when its copy last saved its work."""


class RemoteNotices:
    """Writes annotations of remote jobs, and reads their checkpoints.

    Args:
        context: The manager's context.
        fleet: The workers.
    """

    def __init__(self, context: ManagerContext, fleet: Fleet) -> None:
        self._context = context
        self._fleet = fleet
        self._listeners: list[OnReport] = []
        fleet.add_listener(
            FleetListener(
                on_remote=self._on_remote, on_connection=lambda _: None, on_room=lambda: None
            )
        )

    def follow(self, listener: OnReport) -> None:
        """Call this when a job on a worker may have saved its work."""
        self._listeners.append(listener)

    def find_client(self, cluster: str) -> KubeClient | None:
        """Return the client of a worker; None while it is out of reach."""
        session = self._fleet.find_session(cluster)
        return session.client if session is not None else None

    async def annotate(self, workload: Workload, notes: Mapping[str, str | None]) -> bool:
        """Change annotations of the job where it runs; None removes one.

        Only the first of several objects is changed, such as the first pod of a group.

        Returns:
            Whether its worker could be reached.
        """
        session = self._fleet.find_session(workload.status.cluster_name or "")
        if session is None:
            return False
        found = session.find_jobs(workload.metadata.key)
        for kind, job in sorted(found, key=lambda each: str(each[1]["metadata"]["name"]))[:1]:
            metadata = job["metadata"]
            known = metadata.get("annotations") or {}
            adapter = self._context.integrations.find_adapter(kind)
            if adapter is None or all(known.get(name) == text for name, text in notes.items()):
                continue
            body = {"metadata": {"annotations": dict(notes), "uid": metadata["uid"]}}
            try:
                await session.client.patch(
                    adapter.resource, metadata["name"], body, namespace=metadata["namespace"]
                )
            except NotFound:
                continue
        return True

    def _on_remote(self, key: str) -> None:
        workload = self._context.informers.workloads.store.get(key)
        cluster = workload.status.cluster_name if workload is not None else None
        session = self._fleet.find_session(cluster) if cluster else None
        if workload is None or session is None:
            return
        uid = workload.metadata.labels.get(JOB_UID, "")
        for _, job in session.find_jobs(key):
            text = (job["metadata"].get("annotations") or {}).get(LAST_CHECKPOINT)
            if text and uid:
                for listener in self._listeners:
                    listener(uid, str(text))
