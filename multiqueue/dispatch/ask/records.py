"""The latest decisions of the dispatchers with their views, to explain and to replay them.

They are kept in memory and bounded; another manager starts with none.
"""

from __future__ import annotations

from multiqueue.plugins.recording import Decision

MOST_CLUSTERS = 2_000
"""Limit of the clusters in all views together: a few kilobytes each at most, and much of it is
shared. Each decision itself counts as one more: that is five hundred decisions about three
clusters."""


class DecisionRecords:
    """The decisions of the last while.

    A decision that repeats the previous one about the same Workload replaces it, so that waiting
    jobs do not push out the others.

    Args:
        most_clusters: How many clusters all views together may have.
    """

    def __init__(self, most_clusters: int = MOST_CLUSTERS) -> None:
        self._most = most_clusters
        self._decisions: dict[int, Decision] = {}
        self._latest: dict[str, int] = {}
        self._next = 0
        self._clusters = 0

    def note(self, decision: Decision) -> None:
        """Remember a decision. Cost: constant, and the older decisions that it pushes out."""
        key = decision.view.workload.key
        before = self._latest.get(key)
        if before is not None and _is_repeated(self._decisions[before], decision):
            self._forget(before)
        self._decisions[self._next] = decision
        self._latest[key] = self._next
        self._next += 1
        self._clusters += _size(decision)
        while self._clusters > self._most and len(self._decisions) > 1:
            self._forget(next(iter(self._decisions)))

    def find(self, key: str) -> Decision | None:
        """Return the latest decision about a Workload, ``namespace/name``."""
        number = self._latest.get(key)
        return None if number is None else self._decisions[number]

    def all(self) -> tuple[Decision, ...]:
        """Return all decisions that are remembered, the oldest first."""
        return tuple(self._decisions.values())

    def _forget(self, number: int) -> None:
        decision = self._decisions.pop(number)
        self._clusters -= _size(decision)
        key = decision.view.workload.key
        if self._latest.get(key) == number:
            del self._latest[key]


def _size(decision: Decision) -> int:
    return 1 + len(decision.view.clusters)


def _is_repeated(before: Decision, after: Decision) -> bool:
    def answer(decision: Decision) -> object:
        nomination = decision.nomination
        told = (nomination.clusters, nomination.refusal) if nomination is not None else None
        return decision.view.workload.uid, decision.dispatcher, told, decision.problem

    return answer(before) == answer(after)
