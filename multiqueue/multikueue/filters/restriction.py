"""The user names the clusters that may run the job."""

from __future__ import annotations

from multiqueue.api.names import CLUSTER_NAMES
from multiqueue.multikueue.filters.candidate import Candidate


def restriction(candidate: Candidate) -> str:
    """Object to clusters that the annotation does not list; names are separated by commas."""
    listed = {name.strip() for name in candidate.wish(CLUSTER_NAMES).split(",")} - {""}
    if not listed or candidate.cluster.metadata.name in listed:
        return ""
    return f"is not among {', '.join(sorted(listed))}, which {CLUSTER_NAMES} allows"
