"""The answer of a dispatcher."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTerm:
    """The score that one scorer gives a cluster.

    Attributes:
        name: Name of the scorer.
        value: The score, from 0 (worst) to 1000.
        weight: How much it counts.
    """

    name: str
    value: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVerdict:
    """Why a cluster was nominated or not; shown to the user beside the cluster's name.

    Attributes:
        cluster: Name of the cluster.
        nominated: Whether the cluster is nominated.
        reason: A few words with numbers, such as ``8 of 8 nvidia.com/gpu in use``.
        tier: The tier of the cluster, if the dispatcher has tiers.
        score: The cluster's score within its tier, from 0 to 1000, if the dispatcher scores.
        terms: The parts of the score.
    """

    cluster: str
    nominated: bool
    reason: str = ""
    tier: str = ""
    score: int | None = None
    terms: tuple[ScoreTerm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlacement:
    """A Workload's position in the global queue, in which Workloads wait without a copy.

    Attributes:
        turn: Among Workloads of equal priority, the one with the earliest turn is asked about first
            when room changes. Usually the submission time, or a later time so that others may pass.
        claim: Name of the cluster where room shall be kept for it. Later Workloads see it there as
            a `ClusterClaim`. Empty: nowhere.
        yields: Whether Workloads of equal priority that do not yield are asked about before it,
            whatever their turn (`yields`).
    """

    turn: datetime
    claim: str = ""
    yields: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """The clusters to which the Workload shall be offered now.

    Attributes:
        clusters: Names from ``view.clusters``, the preferred one first. The Workload is copied to
            all of them and removed from all others; the first to admit it runs it. Empty: the
            Workload is offered nowhere for now.
        verdicts: The reasons, one per cluster; clusters may be omitted.
        ask_again_at: The latest time at which to ask again. The core also asks again when clusters
            appear or disappear, and when room changes on one of them.
        refusal: If not empty, the Workload shall never run, and this is why, with numbers. It is
            rejected and leaves the queue. A dispatcher need not refuse a Workload that no cluster
            can hold: the core keeps it waiting without quota.
        note: Further information for the user, in a few words, at the end of the check's message.
        global_queue: The Workload's position in the global queue, if it is nominated nowhere
            because it waits for room. None: its turn is in the order of submission.
        external: Another program writes ``status.nominatedClusterNames``. The core follows that
            field and no longer writes it.
    """

    clusters: tuple[str, ...] = ()
    verdicts: tuple[ClusterVerdict, ...] = ()
    ask_again_at: datetime | None = None
    refusal: str = ""
    note: str = ""
    global_queue: QueuePlacement | None = None
    external: bool = False
