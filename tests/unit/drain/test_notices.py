"""Notices in drains: which DisruptionPolicy says how long, and when they are over."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.cluster_orders import DrainOrder
from multiqueue.api.conditions import NoticeEnd, Reason, set_condition
from multiqueue.api.names import DISRUPTION_POLICY
from multiqueue.api.notices import end_notice, give_notice, parse_notice
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.controllers.disruption.notice_changes import GivenNotice
from multiqueue.drain.notices import was_taken_back
from multiqueue.drain.pace import Bucket
from multiqueue.drain.state import DrainRun, Leaving
from multiqueue.model.disruption_policy import find_policy
from tests.builders.engine import T0

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


GIVEN_BY = T0 + timedelta(minutes=30)
TOLD = give_notice(api.WorkloadStatus(), Reason.ADMISSION_CHECK, "drained", by=GIVEN_BY, now=T0)
NOTICE = parse_notice(TOLD.conditions)


def running(status: api.WorkloadStatus) -> api.Workload:
    return api.Workload(metadata=api.ObjectMeta(name="w", uid="u"), status=status)


def test_a_notice_is_taken_back_only_if_its_condition_says_so_since_it_was_given() -> None:
    assert NOTICE is not None
    later, before = T0 + timedelta(seconds=60), T0 - timedelta(hours=1)
    over = end_notice(TOLD, NoticeEnd.RESCINDED, "goes on", now=later)
    earlier = give_notice(api.WorkloadStatus(), Reason.ADMISSION_CHECK, "x", by=T0, now=before)
    not_seen_yet = end_notice(earlier, NoticeEnd.RESCINDED, "goes on", now=before)

    assert was_taken_back(running(over), NOTICE)
    assert not was_taken_back(running(TOLD), NOTICE)
    assert not was_taken_back(running(not_seen_yet), NOTICE)
    assert not was_taken_back(running(api.WorkloadStatus()), NOTICE)


def test_a_new_order_judges_again_who_may_still_save_its_work() -> None:
    run = DrainRun(name="a", bucket=Bucket.full(T0))
    run.leaving = {"t/told": Leaving(until=GIVEN_BY, notice=NOTICE), "t/gone": Leaving(until=T0)}
    first, second = DrainOrder(force=True), DrainOrder()
    run.order = first
    run.obey(first, T0)
    assert set(run.leaving) == {"t/told", "t/gone"}
    run.obey(second, T0)
    assert set(run.leaving) == {"t/gone"}


@pytest.mark.parametrize("minutes", [10, 50])
def test_a_preemption_takes_a_notice_of_a_drain_over_and_makes_it_no_longer(minutes: int) -> None:
    """P-52."""
    reserved = set_condition(
        TOLD.conditions,
        type_="QuotaReserved",
        status=True,
        reason=Reason.QUOTA_RESERVED,
        message="",
        now=T0,
    )
    quota = api.Admission(cluster_queue="cq")
    newest = running(msgspec.structs.replace(TOLD, admission=quota, conditions=reserved))
    asked = T0 + timedelta(minutes=minutes)
    words = "Preempted to accommodate a workload (UID: p, JobUID: j) due to prioritization"
    given = GivenNotice(
        workload="t/w",
        uid="u",
        reason=Reason.IN_CLUSTER_QUEUE,
        message=words,
        by=int(asked.timestamp()),
    )

    found = parse_notice(given.change(newest, T0 + timedelta(minutes=1)).conditions)

    assert found is not None
    assert (found.preemptor, found.by) == ("p", int(min(asked, GIVEN_BY).timestamp()))
    assert found.given_at == int(T0.timestamp())
