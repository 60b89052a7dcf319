"""Which clusters may take a Workload, whatever the dispatcher: one function each.

A filter returns why a cluster is excluded, in words that go after its name, or nothing. Pure. A
cluster that is excluded loses a copy that waits there; a job that already runs there is followed to
its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.cluster_orders import read_orders
from multiqueue.api.cluster_taints import (
    KEEPS_OFF,
    PUTS_BEHIND,
    find_untolerated,
    format_taint,
    parse_taints,
    parse_tolerations,
)
from multiqueue.api.names import (
    CLUSTER_NAMES,
    CLUSTER_SELECTOR,
    CLUSTER_TAINTS,
    CLUSTER_TOLERATIONS,
)
from multiqueue.api.v1beta2.meta import Taint, Toleration
from multiqueue.lib.selectors import LabelSelector, SelectorError, parse_label_selector

CONSTRAINTS = (CLUSTER_NAMES, CLUSTER_SELECTOR, CLUSTER_TOLERATIONS)
"""Annotations by which users say where their jobs may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A cluster that might take a Workload.

    Attributes:
        cluster: Its MultiKueueCluster.
        workload: The Workload.
        job: The job that the Workload stands for; None while it is not known.
    """

    cluster: api.MultiKueueCluster
    workload: api.Workload
    job: Mapping[str, Any] | None = None

    def wanted(self, annotation: str) -> str:
        """Return the user's constraint, from the Workload or else from the job; empty: none."""
        return _read_constraint(annotation, self.workload, self.job)


def list_constraints(workload: api.Workload, job: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return all constraints of the user, in the order of `CONSTRAINTS`."""
    return tuple(_read_constraint(annotation, workload, job) for annotation in CONSTRAINTS)


def read_constraints(job: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the constraints on a job itself, in the order of `CONSTRAINTS`."""
    annotations = job["metadata"].get("annotations") or {}
    return tuple(annotations.get(annotation, "") for annotation in CONSTRAINTS)


def _read_constraint(annotation: str, workload: api.Workload, job: Mapping[str, Any] | None) -> str:
    own = workload.metadata.annotations.get(annotation)
    if own is None and job is not None:
        own = (job["metadata"].get("annotations") or {}).get(annotation)
    return (own or "").strip()


def cordon(candidate: Candidate) -> str:
    """Object to clusters that people have taken out of use by an annotation."""
    return read_orders(candidate.cluster.metadata.annotations).refusal


def restriction(candidate: Candidate) -> str:
    """Object to clusters that the annotation does not list; names are separated by commas."""
    listed = list_names(candidate.wanted(CLUSTER_NAMES))
    if not listed or candidate.cluster.metadata.name in listed:
        return ""
    return f"is not in {CLUSTER_NAMES} ({', '.join(listed)})"


def list_names(wanted: str) -> list[str]:
    """Return the names that a constraint lists, in alphabetical order."""
    return sorted({name.strip() for name in wanted.split(",")} - {""})


def selector(candidate: Candidate) -> str:
    """Object to clusters whose labels do not match; to all if the selector is malformed."""
    text = candidate.wanted(CLUSTER_SELECTOR)
    if not text:
        return ""
    try:
        wanted = _parse(text)
    except SelectorError as error:
        return f'cannot be selected: {CLUSTER_SELECTOR} "{text}" is malformed: {error}'
    if wanted.matches(candidate.cluster.metadata.labels):
        return ""
    return f'is not selected by "{text}" ({CLUSTER_SELECTOR})'


@lru_cache(maxsize=256)
def _parse(text: str) -> LabelSelector:
    return parse_label_selector(text)


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
