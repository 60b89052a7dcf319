"""Clusters keep jobs off that do not tolerate their taints."""

from __future__ import annotations

from functools import lru_cache

from multiqueue.api.cluster_taints import (
    KEEPS_OFF,
    PUTS_BEHIND,
    find_untolerated,
    format_taint,
    parse_taints,
    parse_tolerations,
)
from multiqueue.api.names import CLUSTER_TAINTS, CLUSTER_TOLERATIONS
from multiqueue.api.v1beta2.meta import Taint, Toleration
from multiqueue.capacity.filters.candidate import Candidate


def taints(candidate: Candidate) -> str:
    """Object to clusters with a NoSchedule taint that is not tolerated, or a malformed one.

    Malformed tolerations keep the Workload from every cluster, because their meaning is unknown.
    """
    try:
        tolerations = _parse_tolerations(candidate.wanted(CLUSTER_TOLERATIONS))
    except ValueError as error:
        return f"cannot be asked: {CLUSTER_TOLERATIONS} is malformed: {error}"
    text = candidate.cluster.metadata.annotations.get(CLUSTER_TAINTS, "")
    try:
        found = _parse_taints(text)
    except ValueError as error:
        return f"is closed: its {CLUSTER_TAINTS} is malformed: {error}"
    taint = find_untolerated(found, tolerations, KEEPS_OFF)
    if taint is None:
        return ""
    return f"has taint {format_taint(taint)}, which is not in {CLUSTER_TOLERATIONS}"


def why_avoid(candidate: Candidate) -> str:
    """Return why other clusters are preferred: a PreferNoSchedule taint; else empty."""
    text = candidate.cluster.metadata.annotations.get(CLUSTER_TAINTS, "")
    try:
        tolerations = _parse_tolerations(candidate.wanted(CLUSTER_TOLERATIONS))
        taint = find_untolerated(_parse_taints(text), tolerations, PUTS_BEHIND)
    except ValueError:
        return ""  # `taints` already excludes it
    return f"has taint {format_taint(taint)}" if taint is not None else ""


@lru_cache(maxsize=256)
def _parse_taints(text: str) -> tuple[Taint, ...]:
    return parse_taints(text)


@lru_cache(maxsize=256)
def _parse_tolerations(text: str) -> tuple[Toleration, ...]:
    return parse_tolerations(text)
