"""Which clusters of a check are excluded for a Workload, whatever room they have. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from multiqueue.api import v1beta2 as api
from multiqueue.capacity.filters import Candidate, is_closed, list_constraints, list_names, why_not


class Exclusion(NamedTuple):
    """A cluster that the user does not allow, or that takes no new Workloads.

    Attributes:
        name: The name of the cluster.
        words: Why, in words that go after its name.
        is_closed: Whether it might take the Workload again at any time.
    """

    name: str
    words: str
    is_closed: bool


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Excluded clusters, and constraints that name clusters outside the check.

    Attributes:
        clusters: The clusters of the check that are excluded.
        absent: Why the clusters that the user names are not in the check, one text per name.
    """

    clusters: tuple[Exclusion, ...] = ()
    absent: tuple[str, ...] = ()


def exclude(
    workload: api.Workload,
    job: Mapping[str, Any] | None,
    clusters: Sequence[str],
    find: Callable[[str], api.MultiKueueCluster | None],
) -> Exclusions:
    """Return the clusters that a user or operator excludes, and requested but absent names.

    Args:
        workload: The Workload.
        job: Its job; None while it is not known.
        clusters: The clusters of the check.
        find: Returns the MultiKueueCluster of a name.
    """
    found = []
    for name in clusters:
        cluster = find(name)
        if cluster is None:
            continue
        candidate = Candidate(cluster=cluster, workload=workload, job=job)
        if words := why_not(candidate):
            found.append(Exclusion(name, words, is_closed(candidate)))
    absent = (
        f'there is no MultiKueueCluster "{name}"'
        if find(name) is None
        else f'"{name}" is not among the clusters of the check'
        for name in list_names(list_constraints(workload, job)[0])
        if name not in clusters
    )
    return Exclusions(tuple(found), tuple(absent))
