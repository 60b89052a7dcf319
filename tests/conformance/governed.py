"""Recorded scenarios in which every ClusterQueue, or every Cohort, names a DisruptionPolicy."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from multiqueue.api.names import DISRUPTION_POLICY

POLICY = "policy"


def govern(scenario: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the scenario with the annotation on all objects of a kind, as they come and change."""
    governed = deepcopy(scenario)
    operations = [operation for step in governed["steps"] for operation in step]
    for obj in [*governed["setup"], *(each["object"] for each in operations if "object" in each)]:
        if obj["kind"] == kind:
            obj["metadata"].setdefault("annotations", {})[DISRUPTION_POLICY] = POLICY
    return governed
