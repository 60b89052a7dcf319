"""The verdicts of a replica's engine on Workloads now, cached while they are valid. Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace
from datetime import datetime

from multiqueue.engine.engine import Engine
from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.what_if import Trial, fits_without
from multiqueue.forecast import answers
from multiqueue.forecast.answers import Said
from multiqueue.forecast.asked import resize, without_topology
from multiqueue.forecast.node_model import NodeModel
from multiqueue.forecast.strict_fifo import StrictFifoQueues
from multiqueue.model.cluster_queue import QueueingStrategy
from multiqueue.model.workload import Admission, Workload
from multiqueue.plugins.forecast import Prospect

MOST = 1000
"""Most answers that are cached."""


class Verdicts:
    """Asks an engine without changing it.

    Args:
        engine: The replica's engine.
        node_model: The node model of the worker.
        lines: The waiting Workloads of StrictFIFO queues.
    """

    def __init__(self, engine: Engine, node_model: NodeModel, lines: StrictFifoQueues) -> None:
        self._engine = engine
        self._node_model = node_model
        self._lines = lines
        self._said: dict[Hashable, Said] = {}
        self._closed: set[str] = set()

    def forget(self) -> None:
        """Clear the cache, since anything may have changed."""
        self._said.clear()

    def set_open(self, local_queue: str, *, is_open: bool) -> None:
        """Record whether a LocalQueue lets Workloads in."""
        (self._closed.discard if is_open else self._closed.add)(local_queue)

    def find(self, workload: Workload, now: datetime) -> Said | None:
        """Return the forecast of a Workload; None if its queue is missing or closed."""
        question = (workload.queue, workload.shape, self._node_model.revision)
        said = self._said.get(question)
        if said is not None and said.holds(now):
            return said
        said = self._answer(workload, now)
        if said is not None:
            if len(self._said) >= MOST:
                self._said.clear()
            self._said[question] = said
        return said

    def find_admission(self, workload: Workload) -> Admission | None:
        """Return the admission that a Workload would get now; None if it would get none."""
        trial = self.attempt(workload)
        if trial is None or self.count_before(trial, workload):
            return None
        verdict = trial.verdict
        if not isinstance(verdict, Nominated) or verdict.assignment.mode is not Mode.FIT:
            return None
        return verdict.assignment.admission(trial.queue.name)

    def attempt(self, workload: Workload) -> Trial | None:
        """Return the engine's verdict; None if nothing is admitted from its LocalQueue."""
        cluster_queue = self._engine.local_queue_target(workload.queue)
        if cluster_queue is None or workload.queue in self._closed:
            return None
        return self._engine.try_workload(self._as_asked(workload), cluster_queue)

    def _as_asked(self, workload: Workload) -> Workload:
        return workload if self._node_model.is_known else without_topology(workload)

    def fits_without(self, workload: Workload, gone: Collection[str]) -> bool:
        """Whether a Workload would be admitted there now if these Workloads were gone."""
        trial = self.attempt(workload)
        if trial is None or self.count_before(trial, workload):
            return False
        asked = self._as_asked(workload)
        return fits_without(self._engine.parts, asked, trial.queue.name, gone)

    def _answer(self, workload: Workload, now: datetime) -> Said | None:
        trial = self.attempt(workload)
        if trial is None:
            return None
        never = self._is_hopeless(trial)
        blocked_by = self.count_before(trial, workload)
        found = answers.answer(trial, now, blocked_by=blocked_by, never=never)
        found = self._node_model.qualify(found, trial, workload)
        if found.prospect is Prospect.NEVER and answers.is_too_large(trial):
            found = replace(found, largest=self._largest(workload))
        # The tree's version does not count the waiting Workloads of StrictFIFO queues.
        is_strict = trial.queue.spec.strategy is QueueingStrategy.STRICT_FIFO
        return Said(found, trial.tree, -1 if is_strict else trial.tree.version, now)

    def _is_hopeless(self, trial: Trial) -> bool:
        return answers.is_hopeless(trial) or self._node_model.is_hopeless(trial)

    def count_before(self, trial: Trial, workload: Workload) -> int:
        """Return how many Workloads are before it in a StrictFIFO queue; else 0."""
        if trial.queue.spec.strategy is not QueueingStrategy.STRICT_FIFO:
            return 0
        return self._lines.count_before(trial.pending, workload)

    def _largest(self, workload: Workload) -> int:
        """Return the most pods of its largest pod set that may ever fit; the others stay."""
        largest = max(workload.pod_sets, key=lambda pod_set: pod_set.count)

        def may_fit(count: int) -> bool:
            trial = self.attempt(resize(workload, largest, count))
            return trial is not None and not self._is_hopeless(trial)

        return answers.find_largest(largest.count, may_fit)
