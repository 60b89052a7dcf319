"""One cluster and one Workload: the input of every filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import CLUSTER_NAMES, CLUSTER_SELECTOR, CLUSTER_TOLERATIONS

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
