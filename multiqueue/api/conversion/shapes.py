"""The fields that conversion looks into, and what they must be for it to understand them.

An API server checks objects by their schema before they are converted. Others may not: what cannot
be converted is refused by name instead of being passed on in a half-converted state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_QUOTAS = (
    "spec.resourceGroups[].flavors[].resources[]",
    "spec.fairSharing{}",
)
_PATHS: Mapping[str, tuple[str, ...]] = {
    "AdmissionCheck": ("spec{}",),
    "ClusterQueue": (
        *_QUOTAS,
        "spec.admissionChecks[]*",
        "spec.admissionChecksStrategy{}",
        "spec.flavorFungibility{}",
        "spec.preemption.borrowWithinCohort{}",
        "status{}",
    ),
    "Cohort": _QUOTAS,
    "LocalQueue": ("spec.fairSharing{}", "status{}"),
    "MultiKueueCluster": ("spec.clusterSource{}",),
    "MultiKueueConfig": ("spec{}",),
    "ResourceFlavor": ("spec{}",),
    "Workload": (
        "spec.podSets[].template.spec.containers[]",
        "spec.podSets[].template.spec.initContainers[]",
        "spec.podSets[].template.metadata{}",
        "spec.podSets[].topologyRequest{}",
        "spec.priorityClassRef{}",
        "status.admission.podSetAssignments[].topologyAssignment{}",
        "status.admission.podSetAssignments[].resourceUsage{}",
    ),
}
"""Per kind; every step of a path is checked. ``[]*`` is a list of anything."""

_JSON_NAMES = {str: "a string", bool: "a boolean", int: "a number", float: "a number"}


def find_misshapen(obj: Mapping[str, Any]) -> str | None:
    """Say which field cannot be converted, and why; None: all can.

    Absent and null fields are fine.
    """
    for path in ("metadata.annotations{}", *_PATHS.get(str(obj.get("kind")), ())):
        for problem in _walk(obj, path.split("."), ""):
            return problem
    return None


def _walk(value: Any, steps: list[str], where: str) -> Iterator[str]:
    """Check what a path leads to; the value itself is known to be an object, or null."""
    if not steps or value is None:
        return
    step, rest = steps[0], steps[1:]
    name = step.rstrip("{}[]*")
    child, path = value.get(name), f"{where}.{name}" if where else name
    if child is None:
        return
    if not step.endswith(("[]", "[]*")):
        yield from _step_into(child, rest, path)
    elif not isinstance(child, list):
        yield f"{path}: must be a list, not {_name(child)}"
    elif not step.endswith("*"):
        for index, item in enumerate(child):
            yield from _step_into(item, rest, f"{path}[{index}]")


def _step_into(child: Any, rest: list[str], path: str) -> Iterator[str]:
    if child is not None and not isinstance(child, dict):
        yield f"{path}: must be an object, not {_name(child)}"
    else:
        yield from _walk(child, rest, path)


def _name(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else _JSON_NAMES[type(value)]
