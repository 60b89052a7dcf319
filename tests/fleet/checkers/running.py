"""Where jobs run, and where they must not."""

from __future__ import annotations

from multiqueue.kube.client import DEFAULT_TIMEOUT
from tests.fleet.checkers.checker import Checker, Report
from tests.fleet.checkers.words import (
    find_job,
    has,
    is_manager,
    is_ours,
    is_released,
    latch_of,
    pods_of,
)
from tests.fleet.history import Change
from tests.fleet.kinds import JOB_PLURALS, has_ended, plural_of
from tests.fleet.weather import LATE
from tests.fleet.world import HUB, FleetWorld, workload_key

LATE_SECONDS = 2 * DEFAULT_TIMEOUT
"""How long after it was sent a request may take effect that its client gave up (`Fault.LATE`)."""
ROUND_TRIP = 0.01
"""How long a write is under way that was decided before a worker was seen again."""


class AtMostOneRuns(Checker):
    """I-1, for released jobs and for their pods.

    A worker is excused that was given up when its job was taken elsewhere, though it came back
    while that one was being created: what is on its way cannot be called back. So is one whose
    backup brought the job back.
    """

    UNDER_WAY = 5.0
    """What was decided before a worker came back is done within so many seconds."""

    def __init__(self, world: FleetWorld, report: Report) -> None:
        super().__init__(world, report)
        self.excused_until: dict[str, float] = {}
        self.released: dict[str, dict[str, None]] = {}
        self.excused: dict[tuple[str, str], float] = {}

    def on_change(self, change: Change) -> None:
        if change.cluster == HUB or change.plural not in JOB_PLURALS:
            return
        job = change.new or change.old
        assert job is not None
        if not is_ours(job):
            return
        key = workload_key(change.plural, job)
        clusters = self.released.setdefault(key, {})
        if change.old is None:
            self._excuse_given_up(key, change.cluster)
        if change.verb == "restore":
            self.excused[change.cluster, key] = self.world.clock()
        if change.new is not None and is_released(change.new):
            if change.cluster not in clusters:
                clusters[change.cluster] = None
                self._judge(key, change.cluster)
        elif change.cluster in clusters:
            del clusters[change.cluster]
        if change.new is None:
            self.excused.pop((change.cluster, key), None)

    def on_pods(self, cluster: str, key: str, *, begin: bool) -> None:
        if begin:
            self._judge(key, cluster)

    def on_step(self) -> None:
        for cluster in self.world.workers:
            if self.is_blind(cluster):
                self.excused_until[cluster] = self.world.clock() + self.UNDER_WAY

    def _excuse_given_up(self, key: str, cluster: str) -> None:
        now = self.world.clock()
        for other in self._list_running(key) - {cluster}:
            if now <= self.excused_until.get(other, 0.0):
                self.excused[other, key] = now

    def _list_running(self, key: str) -> set[str]:
        return set(self.released.get(key, ())) | set(pods_of(self.world, key))

    def _judge(self, key: str, cluster: str) -> None:
        for other in sorted(self._list_running(key) - {cluster}):
            if (other, key) in self.excused or (cluster, key) in self.excused:
                continue
            for lost in (other, cluster):
                if self.is_given_up(lost):
                    self.excused[lost, key] = self.world.clock()
                    break
            else:
                self.report(f"{key} runs on {cluster} while it runs on {other}")


class ReturnedIsFenced(Checker):
    """A worker that comes back after it was given up does not go on with what was moved."""

    PATIENCE = 20.0

    def __init__(self, world: FleetWorld, report: Report, one: AtMostOneRuns) -> None:
        super().__init__(world, report)
        self._one = one

    def on_step(self) -> None:
        for cluster, key in self._one.excused:
            truth = self.world.truth
            if not truth.is_connected(cluster) or truth.calm_for(cluster) < self.PATIENCE:
                continue
            latch = latch_of(self.world, key)
            if cluster in self._one.released.get(key, {}) and latch != cluster:
                job = find_job(self.world, cluster, key)
                if job is not None and not job["metadata"].get("deletionTimestamp"):
                    self.report(f"{key} still runs on {cluster}, which came back, beside {latch}")


class FinishedIsFinal(Checker):
    """I-5."""

    UNDER_WAY = 15.0
    """Requests that were sent before the end arrive in so many seconds, or do not count."""

    def __init__(self, world: FleetWorld, report: Report) -> None:
        super().__init__(world, report)
        self._ended: dict[str, float] = {}
        self._ended_there: set[str] = set()

    def on_change(self, change: Change) -> None:
        if change.cluster == HUB:
            if change.plural == "workloads" and change.new is not None:
                self._look_at_end(change)
        elif change.plural in JOB_PLURALS and change.new is not None and has_ended(change.new):
            self._ended_there.add(workload_key(change.plural, change.new))
        elif change.verb == "create" and change.plural in {"workloads", *JOB_PLURALS}:
            key = workload_key(change.plural, change.new or {})
            ended = self._ended.get(key, change.at)
            if change.at - ended > self.UNDER_WAY and is_manager(change.actor):
                self.report(f"{change}: it finished at {self._ended[key]:.1f}")

    def _look_at_end(self, change: Change) -> None:
        if has(change.old, "Finished") or not has(change.new, "Finished"):
            return
        self._ended[change.key] = change.at
        for owner in (change.new or {})["metadata"].get("ownerReferences") or ():
            job = self.world.hub.find(plural_of(owner["kind"]), f"team-a/{owner['name']}")
            if job is None or job["metadata"].get("deletionTimestamp"):
                continue
            if not has_ended(job):
                self.report(f"{change.key} finished before the last status of its job came back")
            elif change.key not in self._ended_there:
                self.report(f"{change.key} finished, but its job has ended on no worker")

    def on_pods(self, cluster: str, key: str, *, begin: bool) -> None:
        is_restored = (cluster, key) in self.world.truth.restored
        if begin and key in self._ended and not is_restored and not self.is_given_up(cluster):
            self.report(f"{key} finished at {self._ended[key]:.1f} and begins again on {cluster}")


class GangsStartWhole(Checker):
    """Pods begin on a worker only while all pod sets of their job have quota there."""

    def on_pods(self, cluster: str, key: str, *, begin: bool) -> None:
        if not begin or cluster in self.world.players or (cluster, key) in self.world.truth.blows:
            return
        copy = self.world.workers[cluster].find("workloads", key)
        if copy is None:
            return
        admission = (copy.get("status") or {}).get("admission") or {}
        held = {each["name"]: each["count"] for each in admission.get("podSetAssignments") or ()}
        wanted = {each["name"]: each["count"] for each in copy["spec"]["podSets"]}
        if not has(copy, "QuotaReserved") or held != wanted:
            self.report(f"pods of {key} begin on {cluster} with quota for {held} of {wanted}")


class QuotaWhileRunning(Checker):
    """I-6. Where the job was deleted here, its user wants it gone at once."""

    def __init__(self, world: FleetWorld, report: Report, one: AtMostOneRuns) -> None:
        super().__init__(world, report)
        self._one = one

    def on_change(self, change: Change) -> None:
        if change.cluster != HUB or change.plural != "workloads":
            return
        old, new = change.old, change.new
        if new is None or not has(old, "QuotaReserved") or has(new, "QuotaReserved"):
            return
        if has(old, "Finished") or has(new, "Finished"):
            return
        for cluster in pods_of(self.world, change.key):
            excused = (cluster, change.key) in self._one.excused
            # A request that nobody waits for any more may have been sent while it was given up.
            until = self._one.excused_until.get(cluster, 0.0) + LATE_SECONDS
            seen_again_at = self.world.truth.seen_again_at(cluster)
            is_under_way = change.at <= seen_again_at + ROUND_TRIP
            excused |= (change.actor.endswith(LATE) or is_under_way) and change.at <= until
            if not excused and not self.is_blind(cluster):
                self.report(f"{change.key} lost its quota while its pods run on {cluster}")
