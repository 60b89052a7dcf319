"""Which clusters a Workload may go to, according to its admission check.

A check leads to an AdmissionCheck, and that to a MultiKueueConfig. Reads the manager's informers
only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState
from multiqueue.api.names import GROUP, MULTIKUEUE_CONTROLLER

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.jobs.context import Informers

CONFIG_KIND = "MultiKueueConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterList:
    """The clusters of a MultiKueue check.

    Attributes:
        clusters: Names in the order of the MultiKueueConfig.
        config: The MultiKueueConfig.
        problem: Why there are no clusters; empty if there are some.
    """

    clusters: tuple[str, ...] = ()
    config: api.MultiKueueConfig | None = None
    problem: str = ""


def find_multikueue_check(
    workload: api.Workload, informers: Informers
) -> api.AdmissionCheckState | None:
    """Return the state of a Workload's MultiKueue check; there is at most one (M-62)."""
    for state in workload.status.admission_checks:
        check = informers.admission_checks.store.get(state.name)
        if check is not None and is_multikueue(check):
            return state
    return None


def is_multikueue(check: api.AdmissionCheck) -> bool:
    """Whether multiqueue is the controller of a check."""
    return check.spec.controller_name == MULTIKUEUE_CONTROLLER


def other_checks_ready(workload: api.Workload, name: str) -> bool:
    """Whether all checks but this one are Ready (M-100)."""
    return all(
        state.state == CheckState.READY
        for state in workload.status.admission_checks
        if state.name != name
    )


def list_clusters(check: api.AdmissionCheck, informers: Informers) -> ClusterList:
    """Follow an AdmissionCheck to its clusters (M-18)."""
    parameters = check.spec.parameters
    if parameters is None:
        return ClusterList(
            problem=f"spec.parameters is not set; refer to a {CONFIG_KIND} of {GROUP}"
        )
    if (parameters.api_group, parameters.kind) != (GROUP, CONFIG_KIND):
        return ClusterList(
            problem=f"spec.parameters refers to {parameters.kind}.{parameters.api_group}; "
            f"refer to a {CONFIG_KIND} of {GROUP}"
        )
    if not parameters.name:
        return ClusterList(problem="spec.parameters.name is empty")
    config = informers.multikueue_configs.store.get(parameters.name)
    if config is None:
        return ClusterList(problem=f'{CONFIG_KIND} "{parameters.name}" not found')
    return ClusterList(clusters=config.spec.clusters, config=config)
