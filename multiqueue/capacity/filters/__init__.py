"""Which clusters may be asked to take a Workload at all, whoever dispatches: one rule a file.

A filter answers why a cluster is out of the question, in words that go after its name, or nothing.
Pure. A cluster that is filtered out loses a copy that waits there; a job that runs is followed to
its end all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.capacity.filters.candidate import Candidate
from multiqueue.capacity.filters.cordon import cordon
from multiqueue.capacity.filters.restriction import restriction
from multiqueue.capacity.filters.selector import selector
from multiqueue.capacity.filters.taints import taints

Filter = Callable[[Candidate], str]

FILTERS: tuple[Filter, ...] = (cordon, restriction, selector, taints)
"""In the order in which they are asked; the first objection is told."""


OF_CLUSTERS = frozenset({cordon, taints})
"""What those who run the clusters say, and may take back at any time."""


def is_closed(candidate: Candidate) -> bool:
    """Whether nothing but what is said of the cluster itself keeps a Workload off it."""
    objecting = [ask for ask in FILTERS if ask(candidate)]
    return bool(objecting) and OF_CLUSTERS.issuperset(objecting)


def why_not(candidate: Candidate) -> str:
    """Return the first objection; empty where there is none. Cost: one look per filter."""
    return next((words for ask in FILTERS if (words := ask(candidate))), "")
