"""Why a workload waits: typed refusals with their numbers, and the text that every surface shows.

The cycle records refusals; the text is made only when somebody reads it (E-58, E-59, E-114).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.drs import ShareLoss
from multiqueue.engine.refusals import Refusal
from multiqueue.engine.value import Value

SEVERITY = {
    Reason.TOPOLOGY_PLACEMENT_FAILED: 0,
    Reason.WAITING_FOR_QUOTA: 1,
    Reason.EXCEEDS_MAX_QUOTA: 2,
    Reason.NO_MATCHING_FLAVOR: 3,
}
"""Severity of a refusal (E-58): from "when others make room" to "not in this queue"."""


class FlavorAttempt(NamedTuple):
    """One flavor that was tried, and its refusals. ``flavor`` is "" if there was none."""

    flavor: str
    refusals: tuple[Refusal, ...]

    @property
    def reason(self) -> Reason:
        """The most severe refusal."""
        return _most_severe(refusal.reason for refusal in self.refusals)


class PodSetExplanation(NamedTuple):
    """Why a pod set got no flavors: one tuple of attempts per resource group that failed."""

    name: str
    pods: int
    groups: tuple[tuple[FlavorAttempt, ...], ...]

    @property
    def reason(self) -> Reason:
        """Per resource group the least severe flavor; of the groups the most severe one (E-58)."""
        if not self.groups:
            return Reason.NO_MATCHING_FLAVOR
        return _most_severe(
            min((attempt.reason for attempt in group), key=SEVERITY.__getitem__)
            for group in self.groups
        )

    @property
    def refusals(self) -> list[Refusal]:
        """Every refusal of every flavor."""
        return [
            refusal for group in self.groups for attempt in group for refusal in attempt.refusals
        ]

    def __str__(self) -> str:
        reasons = ", ".join(sorted({str(refusal) for refusal in self.refusals}))
        return f"couldn't assign flavors to pod set {self.name}: {reasons}"


class Explanation(Value, frozen=True, kw_only=True, gc=False):
    """Why a workload is pending.

    Shape: ``cluster_queue`` is "" if the LocalQueue names no known one; ``pod_sets`` has the pod
    sets that did not fit; ``note`` is the text before theirs, or the whole text. If ``cause`` is
    None, the reason follows from the pod sets. ``victims`` counts the workloads that leave for
    this one; with fair sharing, ``share_loss`` says why no workload does. ``is_gated`` means that
    other workloads would have to leave, and that a gate keeps this one from preempting them
    (E-74).
    """

    workload: str
    cluster_queue: str
    cause: Reason | None = None
    note: str = ""
    pod_sets: tuple[PodSetExplanation, ...] = ()
    victims: int = 0
    share_loss: ShareLoss | None = None
    is_gated: bool = False

    @property
    def reason(self) -> Reason:
        """The reason of the QuotaReserved=False condition."""
        return reason_of(self.pod_sets) if self.cause is None else self.cause

    @property
    def message(self) -> str:
        """The message of the QuotaReserved=False condition."""
        words = ": ".join(part for part in (self.note, words_of(self.pod_sets)) if part)
        if self.share_loss is not None:
            return f"{words}. {self.share_loss}"
        if not self.victims:
            return words
        return f"{words}. Pending the preemption of {self.victims} workload(s)"


def words_of(pod_sets: Sequence[PodSetExplanation]) -> str:
    """Join the messages of the pod sets' refusals."""
    return "; ".join(str(pod_set) for pod_set in pod_sets)


def reason_of(pod_sets: Iterable[PodSetExplanation]) -> Reason:
    """Return the most severe reason over the pod sets."""
    return _most_severe(pod_set.reason for pod_set in pod_sets)


def _most_severe(reasons: Iterable[Reason]) -> Reason:
    return max(reasons, key=SEVERITY.__getitem__, default=Reason.NO_MATCHING_FLAVOR)
