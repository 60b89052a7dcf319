"""The decisions of a cycle, in order: the shell turns each one into writes, events and metrics.

Pure values; equal input gives equal plans. Reasons are enums; messages are rendered on reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from multiqueue.api.conditions import NoticeEnd, Reason
from multiqueue.api.disruptions import Stop
from multiqueue.api.notices import Notice
from multiqueue.engine.pending_reasons import Explanation
from multiqueue.engine.value import Value
from multiqueue.model.workload import Admission


class RequeueReason(StrEnum):
    """Why a head goes back; the reason decides where it waits (E-22, E-23)."""

    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    NO_FIT = "NoFit"
    PREEMPTION_GATED = "PreemptionGated"
    PENDING_PREEMPTION = "PendingPreemption"
    PREEMPTION_FAILED = "PreemptionFailed"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"
    WAITING_INSTEAD = "WaitingInstead"
    """It could stop others, and waits until they end by themselves. Upstream has no such reason."""
    NO_CLUSTER = "NoCluster"
    """No cluster that would run it can ever hold it. Upstream has no such reason."""


class SkipReason(StrEnum):
    """Why a nominated head was passed over in this cycle."""

    WAITING_FOR_PODS = "Waiting for the pods of all admitted workloads to be ready"
    NO_LONGER_FITS = "Workload no longer fits after processing another workload"
    OVERLAPPING_TARGETS = "Workload has overlapping preemption targets with another workload"


class Admit(Value, frozen=True, kw_only=True, gc=False):
    """Quota is reserved; the usage is assumed in the engine at once (E-83).

    Shape: ``checks`` names the admission checks of the assigned flavors, sorted (E-111);
    ``admitted`` says that all of them are ready already and no pods have to be placed later, so
    Admitted=True is written too (E-110).
    ``borrowing`` is the height of the subtree that lends, 0 if nothing is borrowed (E-37).
    ``replaces`` is the key of the slice whose quota it took over, "" if there is none (E-167).
    ``note`` says why it may be stopped for others although it asks not to be, "" if it does not.
    """

    workload: str
    cluster_queue: str
    admission: Admission
    checks: tuple[str, ...] = ()
    admitted: bool = True
    borrowing: int = 0
    replaces: str = ""
    note: str = ""

    @property
    def reason(self) -> Reason:
        """The reason of QuotaReserved=True."""
        return Reason.QUOTA_RESERVED

    @property
    def message(self) -> str:
        """The message of QuotaReserved=True."""
        words = f"Quota reserved in ClusterQueue {self.cluster_queue}"
        return f"{words}; {self.note}" if self.note else words


class Refused(Value, frozen=True, kw_only=True, gc=False):
    """A head that gets no quota in this cycle, with the reason."""

    workload: str
    cluster_queue: str
    explanation: Explanation

    @property
    def reason(self) -> Reason:
        """The reason of QuotaReserved=False."""
        return self.explanation.reason

    @property
    def message(self) -> str:
        """The message of QuotaReserved=False."""
        return self.explanation.message


class Requeue(Refused, frozen=True, kw_only=True, gc=False):
    """The head cannot be admitted now; if ``parked``, it waits for a wake, else it stays head."""

    requeue_reason: RequeueReason
    parked: bool


class Skip(Refused, frozen=True, kw_only=True, gc=False):
    """The head fitted when the cycle began, but another one took the room; it is tried again.

    ``preempts`` says that it would have fitted by preempting others only.
    """

    skip_reason: SkipReason
    preempts: bool = False


class PreemptedWorkload(NamedTuple):
    """A workload that has to leave for another one.

    Shape: ``reason`` and ``message`` are those of its Preempted condition. ``is_new`` is false
    if an earlier preemption of it is not visible yet, so that nothing has to be written (E-80).
    ``stop`` is for its record; None if no DisruptionPolicy governs its tree. ``notice`` is until
    when it may save its work first, in seconds since the epoch; 0 if it is stopped at once.
    """

    workload: str
    uid: str
    reason: Reason
    message: str
    is_new: bool = True
    stop: Stop | None = None
    notice: int = 0


class Preempt(Refused, frozen=True, kw_only=True, gc=False):
    """The head fits once the victims have left; until then it is the first of its queue."""

    victims: tuple[PreemptedWorkload, ...]


class Evict(Value, frozen=True, kw_only=True, gc=False):
    """A workload that holds quota has to stop, for no other workload's sake (E-71)."""

    workload: str
    cluster_queue: str
    reason: Reason
    message: str


class EndNotice(Value, frozen=True, kw_only=True, gc=False):
    """A victim had its time to save its work; now it is stopped for its preemptor (P-52).

    Shape: ``cluster_queue`` is the preemptor's; ``reason`` and ``message`` are those of the
    Preempted condition. ``stop`` is for its record, as in `PreemptedWorkload`. The notice lasted
    for ``seconds``.
    """

    workload: str
    uid: str
    cluster_queue: str
    preemptor: str
    reason: Reason
    message: str
    stop: Stop | None
    end: NoticeEnd
    seconds: int


class RescindNotice(Value, frozen=True, kw_only=True, gc=False):
    """A victim that was told to leave may stay (P-56); ``cluster_queue`` is its own."""

    workload: str
    uid: str
    cluster_queue: str
    notice: Notice
    message: str


class PlacePods(Value, frozen=True, kw_only=True, gc=False):
    """The pods of a workload that holds quota get nodes, or other nodes (E-150, E-151).

    ``admission`` is its present one with the new node assignment, which has no failed node. The
    usage is assumed at once, as for `Admit`.
    """

    workload: str
    cluster_queue: str
    admission: Admission


class PlaceFailed(Value, frozen=True, kw_only=True, gc=False):
    """No nodes were found for pods of a workload that holds quota; tried again after a while."""

    workload: str
    cluster_queue: str
    message: str


HeadDecision = Admit | Requeue | Skip | Preempt | Evict
Decision = HeadDecision | PlacePods | PlaceFailed | EndNotice | RescindNotice


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFailure:
    """A cycle that raised: its decisions are undone, and the tree is tried again after a pause.

    ``tree`` is the key of the tree in `Cache.trees`.
    """

    tree: str
    error: Exception


class CyclePlan(Value, frozen=True, kw_only=True, gc=False):
    """All decisions of one `Engine.run_cycle`, in the order in which they were taken.

    ``exhausted`` says that the budget ended the call: more can be decided at once.
    ``cycles`` counts the cycles of single cohort trees that ran; ``failures`` are some of them.
    ``recomputed`` names for each second search for victims the ClusterQueue and whether it found
    some (E-70). ``explained`` are the keys of the workloads that wait for another reason than
    before, or with other figures.
    """

    decisions: tuple[Decision, ...] = ()
    explained: tuple[str, ...] = ()
    cycles: int = 0
    exhausted: bool = False
    failures: tuple[TreeFailure, ...] = ()
    recomputed: tuple[tuple[str, bool], ...] = ()
