"""What a manager remembers about a Workload beyond the API objects; lost with the process.

Everything here only improves decisions: a manager that starts without it assumes the worst about
clusters that it has not been connected to since it started (M-230, M-231).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from multiqueue.dispatch.decide.cluster_state import ClusterState, Presence
from multiqueue.dispatch.decide.plan import Trouble
from multiqueue.dispatch.decide.view import LocalWorkload, Opening
from multiqueue.plugins import Round

MAX_ROUNDS = 20
"""Earlier answers that are remembered of a Workload; older ones are forgotten."""
FIGURES_FOR = timedelta(minutes=5)
"""How long numbers in a message may be stale: each change of room changes some of them."""
_FIGURE = re.compile(r"(?<![\w.-])\d[\w.]*")
"""A number with its unit; not the digits in a name."""


@dataclass(slots=True)
class GroupMemory:
    """Memory of one Workload, by its uid.

    Attributes:
        uid: The uid of the Workload.
        last_cluster: The cluster that was last seen with the latch; kept during an eviction, which
            clears the latch.
        suspects: Clusters where a job of ours was seen or may be: its creation was begun, or the
            cluster is nominated, not connected, and not in ``looked``. A cluster that is seen
            without a job is removed.
        looked: Clusters that were seen without a job. Only this process could create one there
            since, and that is recorded in ``suspects``.
        inherited: The reservation that was under way when this process first saw the Workload; None
            before that. "": it had no quota then, has another reservation now, or was seen to be
            run by one cluster.
        refusals: Clusters that turned out to be unable to take it: why, and until when that is
            believed.
        stopping: Clusters that were seen with something of ours during an eviction here, and since
            when, in seconds of a clock that nobody sets.
        rounds: Earlier nominations of this reservation.
        constraints: The user's cluster constraints at the last reconcile; None: not read yet.
        followed: The nominations of somebody else that the last answer was about; None: the
            dispatcher nominates itself.
        opening: The gate that was last opened, or may have been.
        epoch: The reservation that `rounds` and `refusals` are about.
        asked_at: When the dispatcher was last asked; None: not yet.
        ask_again_at: When the dispatcher asked to be asked again.
        room_changed: Room changed on a worker since then, and it is this Workload's turn to use it.
        explained_at: When the message of the check was last written.
        trouble: Why it had to wait at the last reconcile.
        fleet: Version of the fleet, and clusters of the check, at the last question.
    """

    uid: str = ""
    last_cluster: str | None = None
    suspects: set[str] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)
    inherited: str | None = None
    refusals: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    stopping: dict[str, float] = field(default_factory=dict)
    rounds: tuple[Round, ...] = ()
    constraints: tuple[str, ...] | None = None
    followed: tuple[str, ...] | None = None
    opening: Opening | None = None
    epoch: str = ""
    asked_at: datetime | None = None
    ask_again_at: datetime | None = None
    room_changed: bool = False
    explained_at: datetime | None = None
    fleet: tuple[int, tuple[str, ...]] | None = None
    trouble: Trouble | None = None

    def note(self, local: LocalWorkload | None, is_connected: Callable[[str], bool]) -> None:
        """Update the memory from the state of the Workload.

        A nominated cluster is suspect until it was looked at for this very Workload. A connection
        may end before that, so it does not matter whether there ever was one.

        Args:
            local: Its state now.
            is_connected: Whether a cluster is connected now.
        """
        if local is None:
            return
        if local.cluster_name is not None:
            self.last_cluster = local.cluster_name
        elif not local.has_quota:
            self.last_cluster = None
        for name in local.nominated:
            if name not in self.looked and not is_connected(name):
                self.suspects.add(name)
        if self.inherited is None:
            self.inherited = local.epoch
        if local.is_settled or local.epoch != self.inherited:
            self.inherited = ""
        if local.evicted_at is None:
            self.stopping.clear()
        if local.epoch != self.epoch:
            self.epoch = local.epoch
            self.rounds, self.asked_at, self.ask_again_at = (), None, None
            self.opening = None
            self.refusals.clear()

    def hear(self, constraints: tuple[str, ...]) -> None:
        """Note the user's cluster constraints; if they changed, the dispatcher is asked again."""
        if self.constraints is not None and self.constraints != constraints:
            self.room_changed = True
        self.constraints = constraints

    def see(self, cluster: ClusterState) -> None:
        """Note what a cluster holds now: a job seen there once may later run unseen."""
        self._see_gate(cluster)
        if cluster.job_presence is Presence.PRESENT:
            self.suspects.add(cluster.name)
        elif cluster.reachable and cluster.job_presence is Presence.ABSENT:
            self.suspects.discard(cluster.name)
            self.looked.add(cluster.name)

    def _see_gate(self, cluster: ClusterState) -> None:
        """Note when a gate was opened; it still counts once its copy is gone."""
        copy = cluster.workload
        if copy is None or copy.gate_opened_at is None or copy.epoch not in {"", self.epoch}:
            return
        if self.opening is None or self.opening.at < copy.gate_opened_at:
            self.opening = Opening(cluster=cluster.name, at=copy.gate_opened_at)

    def has_evidence(self, name: str, local: LocalWorkload) -> bool:
        """Whether a job for the Workload was seen on a cluster, or may have been created there."""
        return name in self.suspects or name in {local.cluster_name, self.last_cluster}

    def may_run_unseen(self, name: str, local: LocalWorkload, seen: Collection[str]) -> bool:
        """Whether a cluster that cannot be seen could hold a job for the Workload.

        An eviction clears both latch and nominations, and its worker may have been given up. So
        after a restart, every cluster that was not connected since is suspect for a Workload that
        was ever evicted, or whose nominations another controller writes: it may have taken one
        back after the job began there, before that could be recorded. If its reservation is older
        than this process, a connection is not enough, because it may have ended before anybody
        looked: the cluster must have been looked at for this very Workload.
        """
        if self.has_evidence(name, local):
            return True
        known = self.looked if self.inherited else seen
        return (local.was_evicted or self.followed is not None) and name not in known

    def stopping_for(
        self, cluster: str, local: LocalWorkload | None, seconds: float
    ) -> timedelta | None:
        """How long a cluster has been seen to have to stop what was evicted here; None: not yet.

        How long the eviction has been in force does not count: the worker learns of it from us.

        Args:
            cluster: Its name.
            local: The Workload on the manager.
            seconds: The time, of a clock that nobody sets.
        """
        if local is None or local.evicted_at is None:
            return None
        return timedelta(seconds=seconds - self.stopping.setdefault(cluster, seconds))

    def refuse(self, cluster: str, why: str, until: datetime) -> bool:
        """Remember that a cluster cannot take it; the dispatcher is asked again.

        Returns:
            Whether the reason is new for this reservation.
        """
        known = self.refusals.get(cluster)
        self.refusals[cluster] = (why, until)
        self.asked_at = None
        return known is None or known[0] != why

    def meet(self, trouble: Trouble | None) -> bool:
        """Remember why it waits now; return whether the trouble is of a new kind."""
        is_new = trouble is not None and trouble is not self.trouble
        self.trouble = trouble
        return is_new

    def refusal(self, cluster: str, now: datetime) -> str:
        """Why a cluster cannot take it; empty if no reason is known."""
        why, until = self.refusals.get(cluster, ("", now))
        if now < until:
            return why
        if self.refusals.pop(cluster, None) is not None:
            # Nothing else would cause another question once the cluster may be able again.
            self.asked_at = None
        return ""

    def next_refusal_end(self, now: datetime) -> datetime | None:
        """When the next refusal of a cluster ends; None if there is none."""
        return min((until for _, until in self.refusals.values() if until > now), default=None)

    def may_explain(self, old: str, new: str, now: datetime) -> bool:
        """Whether a message is worth a write: its words are new, or its old numbers are stale."""
        if old == new:
            return False
        if _FIGURE.sub("", old) != _FIGURE.sub("", new):
            return True
        return self.explained_at is None or now - self.explained_at >= FIGURES_FOR

    def add_round(self, at: datetime, clusters: tuple[str, ...]) -> None:
        """Remember a nomination that differs from the one before."""
        if not self.rounds or self.rounds[-1].clusters != clusters:
            self.rounds = (*self.rounds, Round(at=at, clusters=clusters))[-MAX_ROUNDS:]

    def offered_since(self, cluster: str) -> datetime | None:
        """Since when a cluster has been nominated without a pause; None: it is not nominated."""
        since = None
        for round_ in reversed(self.rounds):
            if cluster not in round_.clusters:
                break
            since = round_.at
        return since


def is_ask_due(
    memory: GroupMemory,
    local: LocalWorkload,
    clusters: list[ClusterState],
    fleet: tuple[int, tuple[str, ...]],
    now: datetime,
) -> bool:
    """Whether the dispatcher must be asked: the first time, at its request, or again.

    If a copy holds quota on its worker, only the loss of that worker leads to another question.
    """
    if memory.asked_at is None:
        return True
    if memory.followed is not None and memory.followed != local.nominated:
        return True
    by_name = {cluster.name: cluster for cluster in clusters}
    for name in local.nominated:
        cluster = by_name.get(name)
        if cluster is None or not cluster.configured or not cluster.reachable or cluster.refusal:
            return True
    if any(c.copy is not None and c.copy.quota_reserved for c in clusters):
        return False
    if memory.ask_again_at is not None and now >= memory.ask_again_at:
        return True
    return memory.room_changed or memory.fleet != fleet
