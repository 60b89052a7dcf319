"""What becomes of jobs that are told to save their work before they are stopped."""

from __future__ import annotations

from multiqueue.api.conditions import PREEMPTION_NOTICE, NoticeEnd
from multiqueue.api.notices import Notice, parse_notice
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from tests.fleet.checkers.checker import SLACK, Checker, Report
from tests.fleet.checkers.words import find_job, has
from tests.fleet.history import Change
from tests.fleet.objects import Json
from tests.fleet.trainers import told_by
from tests.fleet.world import HUB, FleetWorld


class NoticesAreKept(Checker):
    """P-50 to P-56: a notice is over when it said, costs at most one stop, and leaves nothing."""

    PATIENCE = 20.0
    """Seconds that a manager that works may need for what is due."""
    CALM = 40.0
    """Seconds without trouble after which a worker's job says what its manager wants."""

    def __init__(self, world: FleetWorld, report: Report) -> None:
        super().__init__(world, report)
        self._stopped: set[tuple[str, int]] = set()
        self._over_since: dict[str, float] = {}

    def on_change(self, change: Change) -> None:
        if change.cluster != HUB or change.plural != "workloads" or change.new is None:
            return
        old, new = read_notice(change.old), read_notice(change.new)
        if new is not None and old is None:
            self.world.history.note("told", change.key)
        elif new and old and (new.by > old.by or new.given_at > old.given_at):
            self.report(f"{change.key} was to leave by {old.by}, and now by {new.by}")
        elif old is not None and new is None:
            self._over_since[change.key] = change.at
            self._look_at_end(change, old)

    def _look_at_end(self, change: Change, notice: Notice) -> None:
        conditions = ((change.new or {}).get("status") or {}).get("conditions") or ()
        condition = next(each for each in conditions if each["type"] == PREEMPTION_NOTICE)
        is_stopped = has(change.new, "Evicted")
        if is_stopped and (change.key, notice.given_at) in self._stopped:
            self.report(f"{change.key} was stopped twice for one notice")
        self._stopped.add((change.key, notice.given_at))
        if condition["status"] == "True":
            return  # its worker stopped it, say, or it ended by itself
        reason = condition["reason"]
        self.world.history.note(f"notice {reason}", change.key)
        if is_stopped is (reason == NoticeEnd.RESCINDED):
            self.report(f"{change.key}: its notice ended as {reason}, stopped: {is_stopped}")
        if reason == NoticeEnd.SAVED and not self._has_saved(change.key, notice):
            self.report(f"{change.key} was stopped as if it had saved its work")

    def _has_saved(self, key: str, notice: Notice) -> bool:
        """Whether its training said so, as far as clocks can tell."""
        slack = SLACK + sum(map(abs, self.world.plan.skews.values()))
        reports = (at for t in self.world.trainers.values() for at in t.saved.get(key, ()))
        return any(notice.given_at <= at.timestamp() + slack for at in reports)

    def on_step(self) -> None:
        if not self.world.plan.saving:
            return
        for workload in self.world.hub.list_all("workloads"):
            key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
            notice = read_notice(workload)
            if notice is not None:
                self._over_since.pop(key, None)
                self._look_for_delay(key, notice)
            else:
                self._look_for_rest(key, workload)

    def _look_for_delay(self, key: str, notice: Notice) -> None:
        world = self.world
        slack = SLACK + sum(map(abs, world.plan.skews.values())) + self.PATIENCE
        late = world.now_of(HUB)().timestamp() - notice.by
        if world.is_hub_heard and late > slack:
            self.report(f"{key}: its notice is over for {late:.0f} s, and it is not stopped")

    def _look_for_rest(self, key: str, workload: Json) -> None:
        """What is not told to leave any more must not read that it is."""
        world, cluster = self.world, (workload.get("status") or {}).get("clusterName")
        if cluster is None or not world.is_hub_heard or world.truth.calm_for(cluster) < self.CALM:
            return
        if world.clock() - self._over_since.get(key, 0.0) < self.CALM:
            return
        by = told_by(find_job(world, cluster, key))
        if by and world.truth.is_connected(cluster):
            self.report(f"{key} has no notice any more, and its job on {cluster} says {by}")

    def at_end(self) -> None:
        for job in self.world.list_jobs(HUB):
            if told_by(job):
                self.report(f"{job['metadata']['name']} still says that it is to be stopped")
        if not self.world.plan.saving:
            return
        queue = self.world.hub.find("clusterqueues", "cq") or {}
        if held := (queue.get("status") or {}).get("reservingWorkloads"):
            self.report(f"all is done, and {held} workloads hold quota")


def read_notice(workload: Json | None) -> Notice | None:
    """Return the notice of a Workload that is in force: it runs, and was not stopped yet."""
    if workload is None or has(workload, "Evicted") or has(workload, "Finished"):
        return None
    return parse_notice(decode(Workload, workload).status.conditions)
