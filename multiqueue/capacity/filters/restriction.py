"""The user names the clusters that may run the job."""

from __future__ import annotations

from multiqueue.api.names import CLUSTER_NAMES
from multiqueue.capacity.filters.candidate import Candidate


def restriction(candidate: Candidate) -> str:
    """Object to clusters that the annotation does not list; names are separated by commas."""
    listed = list_names(candidate.wanted(CLUSTER_NAMES))
    if not listed or candidate.cluster.metadata.name in listed:
        return ""
    return f"is not among {', '.join(listed)}, which {CLUSTER_NAMES} allows"


def list_names(wanted: str) -> list[str]:
    """Return the names that a constraint lists, in alphabetical order."""
    return sorted({name.strip() for name in wanted.split(",")} - {""})
