"""What happens to quota and queues as workloads and queues come, change and go (E-38, E-118)."""

import gc
import weakref

import pytest

from multiqueue.engine.plan import Admit
from multiqueue.engine.state import UsedQuota
from multiqueue.model.cluster_queue import (
    LocalQueue,
    QueueingStrategy,
    StopPolicy,
)
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Admission, PodSetAssignment, Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    condition,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    reserved,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld


def one_slot(**fields: object) -> EngineWorld:
    return EngineWorld(make_queue("cq", flavor_quotas("f", cpu=1), **fields))


def holding(cpu: int, *, queue: str = "cq", flavor: str = "f") -> Admission:
    assignment = PodSetAssignment(name="main", flavors={"cpu": flavor}, usage={"cpu": cpu * 1000})
    return Admission(cluster_queue=queue, pod_sets=(assignment,))


def used(world: EngineWorld, queue: str = "cq", flavor: str = "f") -> int:
    state = world.engine.cluster_queue_state(queue)
    assert state is not None
    return state.reservation[flavor]["cpu"].total // 1000


def pending(world: EngineWorld, queue: str = "cq") -> list[str]:
    return [p.workload.partition("/")[2] for p in world.engine.pending_workloads(queue)]


def test_usage_is_assumed_before_the_write_comes_back() -> None:
    world = one_slot()
    world.submit(make_workload("a"), make_workload("b", at=T0 + seconds(1)))

    assert world.admitted() == ["a"]
    assert (used(world), pending(world)) == (1, ["b"])


def test_an_event_from_before_the_write_does_not_undo_the_assumption() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.cycle()
    world.submit(make_workload("a", generation=2))

    assert world.admitted() == []
    assert used(world) == 1


def test_the_written_reservation_is_counted_once() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.write_back(world.cycle())
    world.engine.confirm(f"{NAMESPACE}/a")

    assert used(world) == 1


def test_a_write_that_failed_gives_the_quota_back_and_tries_again() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.cycle()
    world.engine.forget(f"{NAMESPACE}/a", world.now)

    assert (used(world), pending(world)) == (0, ["a"])
    assert world.admitted() == ["a"]


def test_a_write_that_failed_does_not_end_a_backoff() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.cycle()
    world.submit(make_workload("a", requeue_at=T0 + seconds(9)))
    world.engine.forget(f"{NAMESPACE}/a", world.now)

    assert world.admitted() == []
    assert world.admitted(after=9) == ["a"]


def test_a_write_that_fails_again_and_again_lets_others_pass() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.cycle()
    world.submit(make_workload("b", at=T0 + seconds(1)))
    world.engine.forget(f"{NAMESPACE}/a", world.now, retry_at=world.now + seconds(9))

    assert world.admitted() == ["b"]
    world.delete("b")
    assert world.admitted(after=8) == []
    assert world.engine.next_cycle_at(world.now) == world.now + seconds(1)
    assert world.admitted(after=1) == ["a"]


def test_a_longer_backoff_of_its_own_outlasts_a_failed_write() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.cycle()
    world.submit(make_workload("a", requeue_at=T0 + seconds(9)))
    world.engine.forget(f"{NAMESPACE}/a", world.now, retry_at=world.now + seconds(1))

    assert world.admitted(after=2) == []
    assert world.admitted(after=7) == ["a"]


def test_a_hold_without_an_end_is_not_ended_by_an_earlier_one() -> None:
    world = one_slot()
    held = make_workload("a", requeue_at=T0 + seconds(9))
    world.submit(held)
    waits = condition("Requeued", status=False)
    world.submit(with_changes(held, requeued=waits))

    assert world.admitted(after=9) == []


def test_what_its_object_forbids_is_tried_when_that_changes() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.cycle()
    world.engine.set_aside(f"{NAMESPACE}/a", world.now)

    assert (used(world), pending(world)) == (0, [])
    assert world.admitted(after=60) == []
    world.submit(make_workload("a", generation=2))
    assert world.admitted() == ["a"]


@pytest.mark.parametrize("when", ["unknown", "pending", "confirmed"])
def test_forgetting_what_is_not_assumed_changes_nothing(when: str) -> None:
    world = one_slot()
    if when != "unknown":
        world.submit(make_workload("a"))
    if when == "confirmed":
        world.cycle()
        world.engine.confirm(f"{NAMESPACE}/a")
    world.engine.forget(f"{NAMESPACE}/a", world.now)
    world.engine.set_aside(f"{NAMESPACE}/a", world.now)
    world.engine.confirm(f"{NAMESPACE}/gone")

    assert used(world) == (when == "confirmed")


def test_a_reservation_found_at_start_counts_without_a_cycle() -> None:
    world = one_slot()
    world.submit(reserved(make_workload("a"), holding(1)))

    assert used(world) == 1
    assert world.engine.workload_reason(f"{NAMESPACE}/a") is None


def test_a_reservation_counts_as_soon_as_its_queue_appears() -> None:
    world = EngineWorld()
    world.submit(reserved(make_workload("a"), holding(1)))
    world.engine.upsert_cluster_queue(make_queue("cq", flavor_quotas("f", cpu=1)))
    assert used(world) == 1

    world.engine.delete_cluster_queue("cq")
    world.submit(with_changes(world.workloads[f"{NAMESPACE}/a"], finished=True))
    assert world.engine.cluster_queue_state("cq") is None


def test_a_workload_that_lost_its_reservation_is_queued_in_the_same_step() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.write_back(world.cycle())
    world.submit(make_workload("a", evicted=condition("Evicted", status=True)))

    assert world.admitted() == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"finished": True}, id="it finished"),
        pytest.param({"active": False}, id="it was deactivated"),
    ],
)
@pytest.mark.parametrize("state", ["pending", "assumed", "holding"])
def test_a_workload_gives_everything_back_when(change: dict[str, bool], state: str) -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    if state != "pending":
        plan = world.cycle()
        if state == "holding":
            world.write_back(plan)
    world.submit(with_changes(world.workloads[f"{NAMESPACE}/a"], **change))

    assert (used(world), pending(world)) == (0, [])


def test_a_reactivated_workload_is_queued_again() -> None:
    world = one_slot()
    world.submit(make_workload("a", active=False))
    assert world.reason("a") == "Deactivated: The workload is deactivated"

    world.submit(make_workload("a"))
    assert world.admitted() == ["a"]


def test_a_deactivated_workload_with_a_reservation_holds_nothing() -> None:
    world = one_slot()
    world.submit(reserved(make_workload("a", active=False), holding(1)))

    assert used(world) == 0


def test_a_finished_workload_that_was_never_seen_is_nothing() -> None:
    world = one_slot()
    world.submit(make_workload("a", finished=True))
    world.delete("a")

    assert world.engine.workload_reason(f"{NAMESPACE}/a") is None


@pytest.mark.parametrize("state", ["pending", "holding"])
def test_a_deleted_workload_gives_everything_back(state: str) -> None:
    world = one_slot()
    world.submit(make_workload("a"), make_workload("b", at=T0 + seconds(1)))
    if state == "holding":
        world.write_back(world.cycle())
    world.delete("a")

    assert pending(world) == ["b"]
    assert world.admitted(after=1) == ["b"]


def test_a_workload_made_again_under_its_name_is_another_one() -> None:
    world = one_slot()
    world.submit(make_workload("a", uid="first"))
    world.write_back(world.cycle())
    world.submit(make_workload("a", uid="second"))

    assert used(world) == 0
    assert world.admitted() == ["a"]


def test_a_reservation_that_shrank_frees_the_difference_and_wakes() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=3)))
    world.submit(make_workload("a", pod_sets=[pod_set(cpu=3)]))
    world.write_back(world.cycle())
    world.submit(make_workload("b"))
    world.cycle()
    world.submit(reserved(world.workloads[f"{NAMESPACE}/a"], holding(2)))

    assert used(world) == 2
    assert world.admitted(after=1) == ["b"]


def test_an_admitted_workload_counts_as_used_and_not_only_reserved() -> None:
    world = one_slot()
    waiting = reserved(make_workload("a"), holding(1), admitted=False)
    world.submit(waiting)
    state = world.engine.cluster_queue_state("cq")
    assert (state.reserving, state.admitted) == (1, 0)
    assert state.usage == {"f": {"cpu": UsedQuota()}}

    world.submit(reserved(waiting, holding(1)))
    state = world.engine.cluster_queue_state("cq")
    assert (state.reserving, state.admitted) == (1, 1)
    assert state.usage == {"f": {"cpu": UsedQuota(total=1000)}}


def test_a_changed_priority_of_a_holder_wakes_the_others() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.write_back(world.cycle())
    world.cycle()
    world.submit(with_changes(world.workloads[f"{NAMESPACE}/a"], priority=3))
    world.cycle()

    assert world.engine.next_cycle_at(world.now) == world.now + seconds(1)


def test_a_holder_of_a_queue_that_is_gone_may_still_change() -> None:
    world = EngineWorld()
    held = reserved(make_workload("a"), holding(1))
    world.submit(held)
    world.submit(with_changes(held, priority=3))

    assert world.engine.cluster_queue_state("cq") is None


@pytest.mark.parametrize(
    ("blocker", "reason"),
    [
        ({"on_hold": True}, "OnHold: The workload is on hold"),
        ({"gated_by": "example.com/x"}, "AdmissionGated: Admission is gated by: example.com/x"),
        ({"awaits_replacement_pods": True}, "PendingEvaluation"),
        ({"terminating": True}, "PendingEvaluation: The workload is being deleted"),
        (
            {"is_broken": True},
            "Misconfigured: QuotaReserved is True, but status.admission is empty",
        ),
    ],
)
def test_a_workload_enters_no_queue_while(blocker: dict[str, object], reason: str) -> None:
    """E-9."""
    world = one_slot()
    world.submit(make_workload("a", **blocker))
    assert (world.admitted(), pending(world)) == ([], [])
    assert world.reason("a").startswith(reason)

    world.submit(make_workload("a"))
    assert world.admitted() == ["a"]


def test_a_waiting_workload_leaves_when_it_is_put_on_hold() -> None:
    """E-115."""
    world = one_slot()
    world.submit(make_workload("a"))
    world.submit(make_workload("a", on_hold=True))

    assert (world.admitted(), pending(world)) == ([], [])


def test_a_workload_may_move_to_another_local_queue_while_it_waits() -> None:
    world = EngineWorld(make_queue("x"), make_queue("y"))
    world.submit(make_workload("a", queue="x"))
    world.submit(make_workload("a", queue="y"))

    assert (pending(world, "x"), pending(world, "y")) == ([], ["a"])
    state = world.engine.local_queue_state(f"{NAMESPACE}/x")
    assert state.pending == 0
    (decision,) = world.cycle().decisions
    assert isinstance(decision, Admit)
    assert decision.cluster_queue == "y"


def local_queue(**fields: object) -> LocalQueue:
    return LocalQueue(**{"key": f"{NAMESPACE}/lq", "cluster_queue": "cq", **fields})


@pytest.mark.parametrize(
    "closed", [{"stop_policy": StopPolicy.HOLD}, {"terminating": True}], ids=["stopped", "leaving"]
)
def test_a_closed_local_queue_lets_nobody_wait(closed: dict[str, object]) -> None:
    """E-19."""
    world = one_slot()
    world.submit(make_workload("a"))
    world.engine.upsert_local_queue(local_queue(**closed))
    assert (world.admitted(), pending(world)) == ([], [])
    assert world.reason("a") == "Suspended: LocalQueue lq is inactive"

    world.engine.upsert_local_queue(local_queue())
    assert world.admitted() == ["a"]


def test_a_local_queue_that_is_made_closed_has_nobody_waiting() -> None:
    world = EngineWorld(make_queue(), local_queues={})
    world.engine.upsert_local_queue(local_queue(stop_policy=StopPolicy.HOLD))
    world.submit(make_workload("a"))

    assert pending(world) == []


def test_a_deleted_local_queue_leaves_its_workloads_nowhere() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.engine.delete_local_queue(f"{NAMESPACE}/lq")
    world.engine.delete_local_queue(f"{NAMESPACE}/lq")
    world.engine.delete_local_queue(f"{NAMESPACE}/unknown")

    assert (world.admitted(), pending(world)) == ([], [])
    assert world.engine.local_queue_state(f"{NAMESPACE}/lq") is None
    world.delete("a")


def test_a_local_queue_may_lead_to_another_cluster_queue() -> None:
    world = EngineWorld(make_queue("x"), make_queue("y"), local_queues={"lq": "x", "other": "x"})
    world.submit(make_workload("a"))
    world.engine.upsert_local_queue(local_queue(cluster_queue="y"))
    world.engine.upsert_local_queue(local_queue(cluster_queue="y"))

    assert (pending(world, "x"), pending(world, "y")) == ([], ["a"])


def test_a_cluster_queue_that_comes_late_takes_its_workloads_in() -> None:
    world = EngineWorld(local_queues={"lq": "cq"})
    world.submit(make_workload("a"))
    assert world.reason("a") == "Misconfigured: ClusterQueue cq doesn't exist"

    world.engine.upsert_resource_flavor(ResourceFlavor(name="f"))
    world.engine.upsert_cluster_queue(make_queue("cq", flavor_quotas("f", cpu=1)))
    assert world.admitted() == ["a"]


def test_a_deleted_cluster_queue_leaves_its_workloads_waiting_for_the_next() -> None:
    world = one_slot()
    world.submit(make_workload("a"))
    world.engine.delete_cluster_queue("cq")
    world.engine.delete_cluster_queue("cq")
    assert world.admitted() == []
    assert world.engine.pending_workloads("cq") == []

    world.engine.upsert_cluster_queue(make_queue("cq", flavor_quotas("f", cpu=1)))
    assert world.admitted() == ["a"]


def test_a_queue_may_change_its_strategy() -> None:
    world = one_slot(strategy=QueueingStrategy.STRICT_FIFO)
    world.submit(
        make_workload("large", pod_sets=[pod_set(cpu=2)]), make_workload("b", at=T0 + seconds(1))
    )
    assert world.admitted() == []

    world.engine.upsert_cluster_queue(make_queue("cq", flavor_quotas("f", cpu=1)))
    assert world.admitted() == ["b"]


def test_a_reopened_local_queue_takes_in_only_those_that_wait() -> None:
    world = one_slot()
    world.submit(reserved(make_workload("held"), holding(1)), make_workload("gated", gated_by="x"))
    world.engine.upsert_local_queue(local_queue(stop_policy=StopPolicy.HOLD))
    world.engine.upsert_local_queue(local_queue())

    assert (used(world), pending(world)) == (1, [])


def test_a_reservation_without_admission_is_given_back_too() -> None:
    world = one_slot()
    world.submit(reserved(make_workload("a"), holding(1), admitted=False))
    world.submit(make_workload("b", at=T0 + seconds(1)))
    world.delete("a")

    assert world.admitted(after=1) == ["b"]


def test_an_engine_that_nobody_uses_any_more_is_freed() -> None:
    """What it asks may lead back to it, as the manager's forecasts do."""
    world = EngineWorld(make_queue("cq", flavor_quotas("default", cpu=4)))

    class Asked:
        engine = world.engine

        def find_run(self, workload: Workload) -> int:
            return workload.expected_run

    world.engine.ask_run_times(Asked().find_run)
    world.submit(make_workload("a"))
    world.cycle()
    freed = weakref.ref(world.engine)
    del world, Asked
    gc.collect()
    assert freed() is None
