"""Which DisruptionPolicy says how long a job may save its work before it leaves a worker."""

from __future__ import annotations

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import DISRUPTION_POLICY
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.drain.notices import find_policy

NEAR, FAR = "near", "far"


def metadata(name: str, policy: str) -> api.ObjectMeta:
    return api.ObjectMeta(name=name, annotations={DISRUPTION_POLICY: policy} if policy else {})


def cohort(name: str, parent: str, policy: str) -> api.Cohort:
    return api.Cohort(
        metadata=metadata(name, policy), spec=api.CohortSpec(parent_name=parent or None)
    )


@pytest.mark.parametrize(
    ("queue", "team", "root", "found"),
    [
        (NEAR, FAR, FAR, NEAR),
        ("", NEAR, FAR, NEAR),
        ("", "", FAR, FAR),
        ("", "", "", None),
        ("gone", FAR, FAR, None),
    ],
    ids=["queue", "cohort", "root", "none", "the nearest one is not there"],
)
def test_the_nearest_policy_counts(queue: str, team: str, root: str, found: str | None) -> None:
    """P-8."""
    spec = api.ClusterQueueSpec(cohort_name="team")
    queues = {"cq": api.ClusterQueue(metadata=metadata("cq", queue), spec=spec)}
    cohorts = {"team": cohort("team", "root", team), "root": cohort("root", "team", root)}
    policies = {name: DisruptionPolicy(metadata=metadata(name, "")) for name in (NEAR, FAR)}

    policy = find_policy("cq", queues.get, cohorts.get, policies.get)

    assert (policy.metadata.name if policy else None) == found, "a circle of cohorts ends, too"
    assert find_policy("other", queues.get, cohorts.get, policies.get) is None
