"""Which clusters of a check are out of the question for a Workload, whatever they hold. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from multiqueue.api import v1beta2 as api
from multiqueue.capacity.filters import is_closed, why_not
from multiqueue.capacity.filters.candidate import Candidate, list_constraints
from multiqueue.capacity.filters.restriction import list_names


class Exclusion(NamedTuple):
    """A cluster that the user does not want, or that takes nothing new.

    Attributes:
        name: Of the cluster.
        words: Why, in words that go after its name.
        is_closed: Whether it might take the Workload again at any time.
    """

    name: str
    words: str
    is_closed: bool


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Clusters that are out of the question, and wishes for such as there are not.

    Attributes:
        clusters: Those of the check that are excluded.
        absent: Why what the user wishes for is not among those of the check, name by name.
    """

    clusters: tuple[Exclusion, ...] = ()
    absent: tuple[str, ...] = ()


def exclude(
    workload: api.Workload,
    job: Mapping[str, Any] | None,
    clusters: Sequence[str],
    find: Callable[[str], api.MultiKueueCluster | None],
) -> Exclusions:
    """Return what the user does not want or ask for in vain, and what takes nothing new.

    Args:
        workload: What is to run.
        job: Its job; None while it is not known.
        clusters: Those of the check.
        find: Finds MultiKueueClusters.
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
