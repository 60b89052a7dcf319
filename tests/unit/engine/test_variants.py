"""Variants of one job: which flavor each may use, who waits, who takes over (E-67, E-82, E-170)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from multiqueue.api.conditions import Reason
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan, Preempt
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    ClusterQueue,
    ConcurrentAdmission,
    Preemption,
    PreemptionPolicy,
)
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    PENDING,
    check_rule,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    with_changes,
)
from tests.engine_world import EngineWorld

FLAVORS = ("best", "good", "poor")


def queue(last: str = "", **fields: Any) -> ClusterQueue:
    quotas = [flavor_quotas(name, cpu=4) for name in FLAVORS]
    policy = ConcurrentAdmission(last_acceptable=last)
    return make_queue("cq", group(*quotas), concurrent=policy, **fields)


def variant(flavor: str, *, cpu: int = 4, job: str = "job", **fields: Any) -> Workload:
    return make_workload(
        f"{job}-{flavor}",
        pod_sets=[pod_set(cpu=cpu)],
        family=f"uid-{job}",
        variant_order=FLAVORS.index(flavor),
        allowed_flavors=(flavor,),
        **fields,
    )


def parent(job: str = "job") -> Workload:
    return make_workload(job, pod_sets=[pod_set(cpu=4)], stands_aside=True)


def running(world: EngineWorld, *variants: Workload) -> EngineWorld:
    """The world with these variants admitted."""
    world.submit(*variants)
    world.write_back(world.cycle())
    return world


def victims(plan: CyclePlan) -> list[tuple[str, Reason]]:
    found = [v for d in plan.decisions if isinstance(d, Preempt) for v in d.victims]
    return [(victim.workload.partition("/")[2], victim.reason) for victim in found]


def test_a_variant_uses_its_own_flavor_only() -> None:
    world = EngineWorld(queue())
    world.submit(variant("poor"))
    (admitted,) = (d for d in world.cycle().decisions if isinstance(d, Admit))
    assert dict(admitted.admission.pod_sets[0].flavors) == {"cpu": "poor"}
    world.submit(variant("poor", job="other"))
    world.cycle()
    assert "best" not in world.reason("other-poor")


def test_the_best_variant_comes_first_though_its_uid_does_not() -> None:
    world = EngineWorld(queue())
    world.submit(variant("poor", uid="a"), variant("good", uid="b"), variant("best", uid="c"))
    assert world.admitted() == ["job-best"]


@pytest.mark.parametrize(
    "workload",
    [parent(), make_workload("job")],
    ids=["a parent", "a workload that is to become one"],
)
def test_only_variants_queue_where_workloads_have_them(workload: Workload) -> None:
    world = EngineWorld(queue())
    world.submit(workload)
    assert world.admitted() == []
    assert world.engine.pending_workloads("cq") == []


def test_a_slice_of_an_elastic_job_has_no_variants_and_uses_any_flavor() -> None:
    world = EngineWorld(queue())
    world.submit(with_changes(make_workload("job"), is_elastic=True))
    assert world.admitted() == ["job"]


def test_a_parent_holds_no_quota_beside_its_variant() -> None:
    world = running(EngineWorld(queue()), variant("best"))
    held = world.workloads["team/job-best"].reservation
    world.submit(with_changes(parent(), reservation=held))
    assert world.reason("job") == ""
    state = world.engine.cluster_queue_state("cq")
    assert state is not None
    assert (state.reserving, state.usage["best"]["cpu"].total) == (1, 4000)


def test_a_worse_variant_waits_while_a_better_one_is_admitted() -> None:
    world = running(EngineWorld(queue()), variant("good"))
    world.submit(variant("poor"))
    assert world.admitted() == []
    want = "PendingEvaluation: A more favorable variant is already admitted"
    assert world.reason("job-poor") == want


def test_an_admitted_variant_leaves_for_a_better_one_and_only_then_that_is_admitted() -> None:
    world = running(EngineWorld(queue()), variant("poor"))
    world.submit(variant("good"))
    assert victims(world.cycle()) == [("job-poor", Reason.FLAVOR_MIGRATION)]
    assert world.admitted() == []
    world.submit(with_changes(world.workloads["team/job-poor"], reservation=None, active=False))
    assert world.admitted() == ["job-good"]


def test_a_migration_needs_no_open_gate() -> None:
    world = running(
        EngineWorld(queue(), options=EngineOptions(preemption_gates=True)), variant("poor")
    )
    world.submit(variant("good", closed_gates=("kueue.x-k8s.io/concurrent-admission",)))
    assert victims(world.cycle()) == [("job-poor", Reason.FLAVOR_MIGRATION)]


def test_a_preemption_of_others_needs_an_open_gate() -> None:
    strict = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    world = EngineWorld(queue(preemption=strict), options=EngineOptions(preemption_gates=True))
    running(world, variant("best", job="low"))
    gated = variant("best", priority=5, closed_gates=("kueue.x-k8s.io/concurrent-admission",))
    world.submit(gated)
    assert victims(world.cycle()) == []
    explanation = world.engine.workload_reason("team/job-best")
    assert explanation is not None
    assert explanation.is_gated
    world.submit(replace(gated, closed_gates=()))
    assert victims(world.cycle()) == [("low-best", Reason.IN_CLUSTER_QUEUE)]


def test_nothing_moves_to_a_flavor_below_the_last_acceptable_one() -> None:
    world = running(EngineWorld(queue(last="best")), variant("poor"))
    world.submit(variant("good"))
    assert victims(world.cycle()) == []
    assert 'below lastAcceptableFlavorName "best"' in world.reason("job-good")
    world.submit(variant("best"))
    assert victims(world.cycle()) == [("job-poor", Reason.FLAVOR_MIGRATION)]


def test_variants_that_wait_for_checks_hold_quota_side_by_side() -> None:
    world = EngineWorld(queue(checks=(check_rule("check"),)))
    world.engine.upsert_admission_check(AdmissionCheckInfo(name="check"))
    world.submit(*(variant(flavor, checks={"check": PENDING}) for flavor in FLAVORS))
    assert sorted(world.admitted()) == ["job-best", "job-good", "job-poor"]


def test_other_jobs_do_not_matter() -> None:
    world = running(EngineWorld(queue()), variant("best", cpu=1, job="other"))
    world.submit(variant("good", cpu=1))
    assert world.admitted() == ["job-good"]


def test_a_parent_tells_why_each_variant_waits() -> None:
    world = EngineWorld(queue())
    world.submit(parent(), variant("best", cpu=9), variant("good", cpu=9))
    world.cycle()
    reason = world.reason("job")
    assert reason.startswith("ExceedsMaxQuota: best: couldn't assign flavors")
    assert "; good: couldn't assign flavors" in reason


def test_a_parent_tells_of_variants_that_wait_for_checks_and_of_inactive_ones() -> None:
    world = EngineWorld(queue(checks=(check_rule("check"),)))
    world.engine.upsert_admission_check(AdmissionCheckInfo(name="check"))
    world.submit(parent())
    assert world.reason("job").endswith("variants have not been evaluated yet")
    world.submit(variant("best", checks={"check": PENDING}), variant("poor", active=False))
    world.cycle()
    want = "PendingEvaluation: best: quota reserved, not admitted yet; poor: deactivated"
    assert world.reason("job") == want


def test_a_variant_of_an_unknown_flavor_fits_nowhere() -> None:
    world = EngineWorld(queue())
    world.submit(with_changes(variant("poor"), allowed_flavors=()))
    assert world.admitted() == []


def test_multikueue_and_concurrent_admission_do_not_go_together() -> None:
    world = EngineWorld(queue(checks=(check_rule("check"),)))
    info = AdmissionCheckInfo(name="check", controller_name="kueue.x-k8s.io/multikueue")
    world.engine.upsert_admission_check(info)
    state = world.engine.cluster_queue_state("cq")
    assert state is not None
    assert not state.active
    assert "MultiKueue and concurrentAdmissionPolicy together, found: check" in state.message
