"""The input of a search for victims besides the request."""

from __future__ import annotations

from multiqueue.engine.disruption.disruption import Disruption
from multiqueue.engine.disruption.search_rules import SearchRules
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.preemption.candidates import HolderIndex, PastUsage
from multiqueue.engine.value import Value


class SearchContext(Value, frozen=True, kw_only=True, gc=False):
    """The holders of quota, and the ones to leave out.

    Shape: ``excluded`` are keys of workloads that this cycle preempts already; whoever searches
    again after that has taken their usage out of the tree (E-70). ``past_usage`` is None without
    admission fair sharing. No clock is needed: whoever holds quota knows since when. ``rules`` are
    those of DisruptionPolicies for one search; None if none governs the tree.
    """

    holders: HolderIndex
    options: EngineOptions
    excluded: frozenset[str] = frozenset()
    past_usage: PastUsage | None = None
    disruption: Disruption | None = None
    rules: SearchRules | None = None
