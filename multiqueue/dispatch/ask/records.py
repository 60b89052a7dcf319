"""The latest decisions of the dispatchers with their views, to explain and to replay them.

They are kept in memory and bounded; another manager starts with none.
"""

from __future__ import annotations

from multiqueue.plugins.recording import Decision

MOST_CLUSTERS = 20_000
"""Limit of the clusters in all views together: a few kilobytes each at most, and much of it is
shared. Each decision itself counts as one more."""
MOST_PAST = 256
"""Limit of the decisions about Workloads that were deleted; each takes about ten kilobytes."""


class DecisionRecords:
    """The decisions of the last while.

    A decision that repeats the previous one about the same Workload replaces it, so that waiting
    jobs do not push out the others. The decisions about Workloads that were deleted are kept to be
    replayed, but only the last of them.

    Args:
        most_clusters: How many clusters all views together may have.
        most_past: How many decisions about deleted Workloads there may be.
    """

    def __init__(self, most_clusters: int = MOST_CLUSTERS, most_past: int = MOST_PAST) -> None:
        self._most = most_clusters
        self._most_past = most_past
        self._decisions: dict[int, Decision] = {}
        self._numbers: dict[str, list[int]] = {}
        self._past: dict[int, None] = {}
        self._next = 0
        self._clusters = 0

    def note(self, decision: Decision) -> None:
        """Remember a decision. Cost: constant, and the older decisions that it pushes out."""
        key = decision.view.workload.key
        before = self._numbers.get(key)
        if before and _is_repeated(self._decisions[before[-1]], decision):
            self._forget(before[-1])
        self._decisions[self._next] = decision
        self._numbers.setdefault(key, []).append(self._next)
        self._next += 1
        self._clusters += _size(decision)
        while self._clusters > self._most and len(self._decisions) > 1:
            self._forget(next(iter(self._decisions)))

    def find(self, key: str) -> Decision | None:
        """Return the latest decision about a Workload, ``namespace/name``."""
        numbers = self._numbers.get(key)
        return self._decisions[numbers[-1]] if numbers else None

    def retire(self, key: str) -> None:
        """Note that a Workload was deleted."""
        self._past.update(dict.fromkeys(self._numbers.get(key, ())))
        while len(self._past) > self._most_past:
            self._forget(next(iter(self._past)))

    def all(self) -> tuple[Decision, ...]:
        """Return all decisions that are remembered, the oldest first."""
        return tuple(self._decisions.values())

    def _forget(self, number: int) -> None:
        decision = self._decisions.pop(number)
        self._clusters -= _size(decision)
        self._past.pop(number, None)
        key = decision.view.workload.key
        numbers = self._numbers[key]
        numbers.remove(number)
        if not numbers:
            del self._numbers[key]


def _size(decision: Decision) -> int:
    return 1 + len(decision.view.clusters)


def _is_repeated(before: Decision, after: Decision) -> bool:
    def answer(decision: Decision) -> object:
        nomination = decision.nomination
        told = (nomination.clusters, nomination.refusal) if nomination is not None else None
        return decision.view.workload.uid, decision.dispatcher, told, decision.problem

    return answer(before) == answer(after)
