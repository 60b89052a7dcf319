"""Nothing new goes to a cluster that is cordoned or drained."""

from __future__ import annotations

from multiqueue.api.cluster_orders import read_orders
from multiqueue.capacity.filters.candidate import Candidate


def cordon(candidate: Candidate) -> str:
    """Object to clusters that people have taken out of use by an annotation."""
    return read_orders(candidate.cluster.metadata.annotations).refusal
