"""What holders of quota would lose by a stop, computed once for each moment."""

from __future__ import annotations

from datetime import datetime

from multiqueue.engine.disruption.cost import Loss, find_loss
from multiqueue.engine.queues.entry import Entry
from multiqueue.model.disruption_policy import CostRule
from multiqueue.model.workload import Workload


class Losses:
    """The losses of one moment, and the checkpoints that jobs reported. Mutable.

    Shape: ``saved_at`` has the last report by uid of the job, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.saved_at: dict[str, int] = {}
        self._now = 0
        self._known: dict[Entry, tuple[Workload, CostRule, int | None, Loss]] = {}

    def advance(self, now: int) -> None:
        """Go to another moment."""
        self._now = now
        self._known.clear()

    def report(self, job_uid: str, at: datetime | None) -> None:
        """Note when a job last saved its work; it changes no verdict before the next minute."""
        if at is None:
            self.saved_at.pop(job_uid, None)
        else:
            self.saved_at[job_uid] = int(at.timestamp())

    def of(self, entry: Entry, rule: CostRule) -> Loss:
        """Return what a holder would lose by a stop now."""
        workload = entry.workload
        saved_at = self.saved_at.get(workload.job_uid) if workload.job_uid else None
        known = self._known.get(entry)
        if known is not None and known[:3] == (workload, rule, saved_at):
            return known[3]
        loss = find_loss(entry, saved_at, rule, self._now)
        self._known[entry] = (workload, rule, saved_at, loss)
        return loss
