"""Which clusters may be asked to take a Workload at all, whoever dispatches: one rule a file.

A filter answers why a cluster is out of the question, in words that go after its name, or nothing.
Pure. A cluster that is filtered out loses a copy that waits there; a job that runs is followed to
its end all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.multikueue.filters.candidate import Candidate
from multiqueue.multikueue.filters.cordon import cordon
from multiqueue.multikueue.filters.restriction import restriction
from multiqueue.multikueue.filters.selector import selector
from multiqueue.multikueue.filters.taints import taints

Filter = Callable[[Candidate], str]

FILTERS: tuple[Filter, ...] = (cordon, restriction, selector, taints)
"""In the order in which they are asked; the first objection is told."""


def why_not(candidate: Candidate) -> str:
    """Return the first objection; empty where there is none. Cost: one look per filter."""
    return next((words for ask in FILTERS if (words := ask(candidate))), "")
