"""Read the manager's own Workloads: their finished runs, and what is declared for them.

Malformed declarations are ignored; each is reported once, as an Event of the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multiqueue.api import v1beta2 as api
from multiqueue.api.declarations import find_malformed
from multiqueue.api.workload_state import is_finished
from multiqueue.capacity.owners import find_job
from multiqueue.forecast.history import RuntimeHistory
from multiqueue.forecast.traits import Traits, read_finished, read_traits
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.references import reference_of, workload_reference
from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS
from multiqueue.model.build_workload import BuildOptions, build_pod_sets
from multiqueue.model.workload import PodSet

EVENT_REASON = "MalformedAnnotation"
TOLD = 10_000
"""Most malformed values that are remembered as reported; beyond it, all are reported again."""


class Learning:
    """Learns from the manager's Workloads.

    Args:
        context: The manager's context.
        history: The history that learns finished runs.
        options: How requests are read.
    """

    def __init__(
        self, context: ManagerContext, history: RuntimeHistory, options: BuildOptions
    ) -> None:
        self._context = context
        self._history = history
        self._options = options
        self._told: set[tuple[str, str]] = set()
        context.informers.workloads.add_handler(self._on_workload)
        context.informers.multikueue_clusters.add_handler(self._on_cluster)

    def find_traits(self, key: str) -> Traits | None:
        """Return the traits of a Workload by its key; None if there is no such Workload."""
        workload = self._context.informers.workloads.store.get(key)
        return self.read_traits(workload) if workload is not None else None

    def read_traits(
        self,
        workload: api.Workload,
        *,
        tells: bool = True,
        pod_sets: Iterable[PodSet] | None = None,
    ) -> Traits:
        """Return the traits of a Workload; its annotations have precedence over its job's.

        Args:
            workload: The Workload.
            tells: Whether malformed declarations are reported.
            pod_sets: Its pod sets, if they were read before.
        """
        job = find_job(workload, self._context)
        declared = (job["metadata"].get("annotations") or {}) if job is not None else {}
        annotations: Mapping[str, str] = {**declared, **workload.metadata.annotations}
        for words in find_malformed(annotations) if tells else ():
            self._tell(workload.metadata.uid, workload_reference(workload), words)
        if pod_sets is None:
            pod_sets, _ = build_pod_sets(workload, self._options)
        return read_traits(workload, annotations, pod_sets)

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        is_news = new is not None and is_finished(new.status)
        if new is None or not is_news or (old is not None and is_finished(old.status)):
            return
        run = read_finished(new, self.read_traits(new))
        if run is not None:
            self._history.learn(run)

    def _on_cluster(
        self, old: api.MultiKueueCluster | None, new: api.MultiKueueCluster | None
    ) -> None:
        if new is None or (
            old is not None and old.metadata.annotations == new.metadata.annotations
        ):
            return
        for words in find_malformed(new.metadata.annotations):
            self._tell(new.metadata.uid, reference_of(MULTIKUEUE_CLUSTERS, new.metadata), words)

    def _tell(self, uid: str, regarding: Mapping[str, str], words: str) -> None:
        if (uid, words) in self._told:
            return
        if len(self._told) >= TOLD:
            self._told.clear()
        self._told.add((uid, words))
        self._context.recorder.event(regarding, "Warning", EVENT_REASON, words)
