"""What a victim is told (E-102)."""

import pytest

from multiqueue.api.conditions import Reason
from multiqueue.engine.preemption.target import Target, preemption_message
from multiqueue.model.cluster_queue import Cohort
from tests.builders.engine import with_changes
from tests.preemption_world import Holdings, make_cpu_queue


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason.IN_CLUSTER_QUEUE, "prioritization in the ClusterQueue"),
        (Reason.IN_COHORT_RECLAMATION, "reclamation within the cohort"),
        (Reason.IN_COHORT_FAIR_SHARING, "Fair Sharing within the cohort"),
        (
            Reason.IN_COHORT_RECLAIM_WHILE_BORROWING,
            "reclamation within the cohort while borrowing",
        ),
    ],
)
def test_a_victim_is_told_for_whom_why_and_from_where(reason: Reason, words: str) -> None:
    world = Holdings(
        make_cpu_queue("cq", 1, cohort="left"),
        make_cpu_queue("other", 1, cohort="root"),
        cohorts=[Cohort(name="left", parent="root")],
    )
    target = Target(world.hold("victim", "other", cpu=1), reason)
    preemptor = with_changes(world.preemptor(), job_uid="job-1")

    message = preemption_message(preemptor, world.queue("cq"), target, world.cache.queues)

    assert message == (
        "Preempted to accommodate a workload (UID: uid-preemptor, JobUID: job-1)"
        f" due to {words}; preemptor path: /root/left/cq; preemptee path: /root/other"
    )


def test_what_is_not_known_of_the_preemptor_is_said_to_be_unknown() -> None:
    world = Holdings(make_cpu_queue("cq", 1))
    target = Target(world.hold("victim", "cq", cpu=1), Reason.IN_CLUSTER_QUEUE)
    preemptor = with_changes(world.preemptor(), uid="")

    message = preemption_message(preemptor, world.queue("cq"), target, world.cache.queues)

    assert "(UID: UNKNOWN, JobUID: UNKNOWN)" in message
    assert message.endswith("; preemptor path: /cq; preemptee path: /cq")
