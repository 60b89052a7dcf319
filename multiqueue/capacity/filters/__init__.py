"""Which clusters may take a Workload, whatever the dispatcher: one rule per file.

A filter returns why a cluster is excluded, in words that go after its name, or nothing. Pure. A
cluster that is excluded loses a copy that waits there; a job that already runs there is followed to
its end.
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
"""In the order in which they are asked; the first objection is reported."""


OF_CLUSTERS = frozenset({cordon, taints})
"""The filters for statements of operators, who may withdraw them at any time."""


def is_closed(candidate: Candidate) -> bool:
    """Whether only statements about the cluster itself keep a Workload off it."""
    objecting = [ask for ask in FILTERS if ask(candidate)]
    return bool(objecting) and OF_CLUSTERS.issuperset(objecting)


def why_not(candidate: Candidate) -> str:
    """Return the first objection; empty if there is none. Cost: one call per filter."""
    return next((words for ask in FILTERS if (words := ask(candidate))), "")
