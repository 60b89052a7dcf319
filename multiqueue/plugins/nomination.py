"""What a dispatcher answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTerm:
    """What one scorer thinks of a cluster: from 0, worst, to 1000; and how much that counts."""

    name: str
    value: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVerdict:
    """Why a cluster was nominated, or was not; shown to the user beside the cluster's name.

    Attributes:
        cluster: Name of the cluster.
        nominated: Whether it is among the nominated ones.
        reason: A few words with numbers, such as ``8 of 8 nvidia.com/gpu in use``.
        tier: Which class of clusters it is in, where the dispatcher has some.
        score: How it does among those of its tier, from 0 to 1000, where they are scored.
        terms: What the score is made of.
    """

    cluster: str
    nominated: bool
    reason: str = ""
    tier: str = ""
    score: int | None = None
    terms: tuple[ScoreTerm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlacement:
    """Where a Workload stands in the line of those that wait for room without a copy anywhere.

    Attributes:
        turn: Of those of equal priority the one with the earliest is asked about first when room
            changes. When it was submitted, say, or later, so that others may pass until then.
        claim: Name of the cluster where room shall be kept for it: others that come after it in
            line see it there as a `Claim`. Empty: nowhere.
    """

    turn: datetime
    claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """Where the Workload shall be offered now.

    Attributes:
        clusters: Names from ``view.clusters``, the preferred first. The Workload is mirrored to all
            of them, and withdrawn from every other one; the first to admit it runs it. Empty:
            nowhere for now.
        verdicts: One per cluster that there is something to say about.
        ask_again_at: Ask again no later than this. The core also asks again when clusters come and
            go, and when room changes on one of them.
        refusal: Not empty: this Workload shall never run, and this is why, with numbers. It is
            rejected and leaves the queue. What no cluster can hold need not be refused: the core
            keeps it waiting without quota.
        note: What else the user should know, in a few words: it ends the message on the check.
        global_queue: Its place in the global queue, if it is nominated nowhere because it waits for
            room. None: its turn comes in the order of submission.
        external: Somebody else writes ``status.nominatedClusterNames``. The core follows what is
            there, and writes that field no more.
    """

    clusters: tuple[str, ...] = ()
    verdicts: tuple[ClusterVerdict, ...] = ()
    ask_again_at: datetime | None = None
    refusal: str = ""
    note: str = ""
    global_queue: QueuePlacement | None = None
    external: bool = False
