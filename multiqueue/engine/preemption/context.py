"""The input of a search for victims besides the request."""

from __future__ import annotations

import msgspec

from multiqueue.engine.disruption.disruption import Disruption
from multiqueue.engine.disruption.search_rules import SearchRules
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.preemption.candidates import HolderIndex, PastUsage
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.engine.value import Value


class LatestSearch:
    """What the search for flavors found last. Mutable.

    If it chooses that one flavor-resource and no others, the search for victims asks the same.
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: tuple[PreemptionRequest, list[Target]] | None = None

    def clear(self) -> None:
        """Forget it: whoever asks next may see other usage."""
        self._found = None

    def note(self, request: PreemptionRequest, targets: list[Target]) -> None:
        """Remember what a search found."""
        self._found = request, targets

    def recall(self, request: PreemptionRequest) -> list[Target] | None:
        """Return what an equal search found since the last `clear`; None if there was none."""
        if self._found is None or request.is_placeable is not None:
            return None
        known, targets = self._found
        is_same = known.queue is request.queue and known.workload is request.workload
        if is_same and known.usage == request.usage and known.contested == request.contested:
            return targets
        return None


class SearchContext(Value, frozen=True, kw_only=True, gc=True):
    """The holders of quota, and the ones to leave out.

    Shape: ``excluded`` are keys of workloads that this cycle preempts already; whoever searches
    again after that has taken their usage out of the tree (E-70). ``past_usage`` is None without
    admission fair sharing. No clock is needed: whoever holds quota knows since when. ``rules`` are
    those of DisruptionPolicies for one search; None if none governs the tree. ``latest`` holds
    within one attempt to find room. An engine has one for all its life, and it leads back to the
    engine by way of its rules: so the garbage collector has to know of it.
    """

    holders: HolderIndex
    options: EngineOptions
    excluded: frozenset[str] = frozenset()
    past_usage: PastUsage | None = None
    disruption: Disruption | None = None
    rules: SearchRules | None = None
    latest: LatestSearch = msgspec.field(default_factory=LatestSearch)
