"""LocalQueues take turns by past usage (E-14, E-20, E-122 to E-128)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from multiqueue.engine.engine import Engine
from multiqueue.engine.options import AdmissionFairSharing, EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan, Preempt
from multiqueue.lib.quantity import Quantity
from multiqueue.model.cluster_queue import (
    AdmissionMode,
    CheckRule,
    LocalQueue,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from multiqueue.model.past_usage import ConsumedResources
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    reserved,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld

HOUR = timedelta(hours=1)
A, B = f"{NAMESPACE}/a", f"{NAMESPACE}/b"


def sharing_world(
    *,
    cpu: int = 10,
    half_life: timedelta = HOUR,
    interval: timedelta = HOUR,
    ignore_undeclared: bool = False,
    **fields: object,
) -> EngineWorld:
    """Two LocalQueues before one ClusterQueue; an entry costs half of its request."""
    fields.setdefault("admission_mode", AdmissionMode.USAGE_BASED)
    queue = make_queue("cq", flavor_quotas("default", cpu=cpu), **fields)
    sharing = AdmissionFairSharing(half_life=half_life, sampling_interval=interval)
    options = EngineOptions(admission_fair_sharing=sharing, ignore_undeclared=ignore_undeclared)
    return EngineWorld(queue, options=options, local_queues={"a": "cq", "b": "cq"})


def usage(world: EngineWorld, local_queue: str = A) -> float:
    assert world.engine.usage is not None
    return world.engine.usage.usage_of(local_queue)


def seed(world: EngineWorld, local_queue: str, cpu: int, *, at: float = 0) -> None:
    assert world.engine.usage is not None
    status = ConsumedResources(by_resource={"cpu": Quantity.of(cpu)}, updated_at=T0 + seconds(at))
    world.engine.usage.seed(local_queue, status, world.now)


def cpu_job(name: str, cpu: int = 4, **fields: object) -> Workload:
    return make_workload(name, pod_sets=[pod_set(cpu=cpu)], **fields)


def admit_first(world: EngineWorld) -> Admit:
    return next(d for d in world.cycle().decisions if isinstance(d, Admit))


def written(world: EngineWorld, admit: Admit, *, admitted: bool = True) -> Workload:
    """Let the admission come back from the API."""
    workload = world.workloads[admit.workload]
    echo = reserved(workload, admit.admission, admitted=admitted, at=world.now)
    world.submit(echo)
    return echo


def test_less_past_usage_goes_before_priority_and_age() -> None:
    world = sharing_world(cpu=4)
    seed(world, A, 2)
    world.submit(cpu_job("old", queue="a", priority=9), cpu_job("new", queue="b", at=T0 + HOUR))

    assert world.admitted() == ["new"]


def test_equal_usage_leaves_it_to_priority_and_age() -> None:
    world = sharing_world(cpu=4)
    seed(world, A, 2)
    seed(world, B, 2)
    world.submit(cpu_job("low", queue="a"), cpu_job("high", queue="b", priority=9))

    assert world.admitted() == ["high"]


def test_usage_does_not_count_where_the_admission_scope_does_not_say_so() -> None:
    world = sharing_world(cpu=4, admission_mode=AdmissionMode.NONE)
    seed(world, A, 2)
    world.submit(cpu_job("low", queue="b"), cpu_job("high", queue="a", priority=9))

    assert world.admitted() == ["high"]
    assert usage(world, A) == 2


def test_each_admission_sends_its_local_queue_back_at_once() -> None:
    world = sharing_world(cpu=16)
    for i in range(2):
        world.submit(cpu_job(f"a{i}", queue="a", at=T0), cpu_job(f"b{i}", queue="b", at=T0 + HOUR))

    assert world.admitted() == ["a0", "b0", "a1", "b1"]
    assert usage(world, A) == 4  # half of 8


def test_no_penalty_for_resources_that_need_no_quota() -> None:
    world = sharing_world(ignore_undeclared=True)
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(count=2, cpu=2, gpu=8)]))

    admit_first(world)
    assert usage(world) == 2


def test_admission_settles_the_penalty_once() -> None:
    world = sharing_world(half_life=2 * HOUR, interval=2 * HOUR)
    seed(world, A, 6)
    world.submit(cpu_job("w", queue="a"))
    admit = admit_first(world)
    assert usage(world) == 8

    world.now += 2 * HOUR
    echo = written(world, admit)  # half of the 6 are history now, half of the 4 in use are new
    assert usage(world) == 3 + 2 + 2
    world.submit(echo)
    assert usage(world) == 7


def test_a_reservation_waits_for_its_checks_with_its_penalty() -> None:
    world = sharing_world(checks=(CheckRule(name="check"),))
    world.add_check("check")
    world.cycle(after=2)
    world.submit(cpu_job("w", queue="a"))
    admit = admit_first(world)

    written(world, admit, admitted=False)
    assert usage(world) == 2
    written(world, admit)
    assert usage(world) == 2


@pytest.mark.parametrize("end", ["forgotten", "set aside", "deleted", "finished", "moved"])
def test_a_penalty_that_cannot_settle_is_dropped(end: str) -> None:
    world = sharing_world()
    job = cpu_job("w", queue="a")
    world.submit(job)
    admit_first(world)
    assert usage(world) == 2

    engine = world.engine
    match end:
        case "forgotten":
            engine.forget(job.key, world.now)
        case "set aside":
            engine.set_aside(job.key, world.now)
        case "deleted":
            engine.delete_workload(job.key, world.now)
        case "finished":
            world.submit(with_changes(job, finished=True))
        case "moved":
            world.submit(with_changes(job, queue=B))
    assert usage(world) == 0


def test_an_evicted_workload_keeps_its_penalty_until_it_is_deactivated() -> None:
    world = sharing_world(checks=(CheckRule(name="check"),))
    world.add_check("check")
    world.cycle(after=2)
    job = cpu_job("w", queue="a")
    world.submit(job)
    written(world, admit_first(world), admitted=False)

    world.submit(with_changes(job, generation=2))
    assert usage(world) == 2
    world.submit(with_changes(job, generation=3, active=False))
    assert usage(world) == 0


def test_a_reservation_found_at_the_start_has_its_penalty() -> None:
    world = sharing_world()
    job = cpu_job("w", queue="a")
    world.submit(job)
    admission = admit_first(world).admission

    restarted = sharing_world()
    restarted.submit(reserved(job, admission, admitted=False))
    assert usage(restarted) == 2
    restarted.submit(reserved(job, admission))
    assert usage(restarted) == 2


def test_a_reservation_that_is_found_before_its_cluster_queue_has_its_penalty() -> None:
    world = sharing_world()
    job = cpu_job("w", queue="a")
    world.submit(job)
    admission = admit_first(world).admission

    restarted = sharing_world(admission_mode=AdmissionMode.NONE)
    restarted.submit(reserved(job, admission, admitted=False))
    restarted.engine.upsert_cluster_queue(
        make_queue("cq", flavor_quotas("default", cpu=10), admission_mode=AdmissionMode.USAGE_BASED)
    )
    assert usage(restarted) == 2
    restarted.submit(reserved(job, admission))
    assert usage(restarted) == 2


def test_a_sample_is_announced_first_and_keeps_what_settles_meanwhile() -> None:
    world = sharing_world()
    past = world.engine.usage
    assert past is not None
    seed(world, A, 8)
    world.submit(cpu_job("w", queue="a"))
    admit = admit_first(world)

    world.now += HOUR
    announced = past.announce(A, world.now)
    assert announced.by_resource == {"cpu": Quantity.of(4 + 2)}
    assert usage(world) == 8 + 2
    written(world, admit)
    past.sample(A, world.now)
    assert usage(world) == 6 + 2


def test_a_sample_is_due_every_interval_and_at_once_for_a_penalty() -> None:
    world = sharing_world()
    past = world.engine.usage
    assert past is not None
    assert past.next_sample_at(A, world.now) == world.now  # no status yet
    past.announce(A, world.now)
    past.sample(A, world.now)
    assert past.next_sample_at(A, world.now) == world.now + HOUR

    world.submit(cpu_job("w", queue="a"))
    admit_first(world)
    assert past.next_sample_at(A, world.now) == world.now


def test_without_half_life_a_sample_forgets_everything() -> None:
    world = sharing_world(half_life=timedelta(0))
    past = world.engine.usage
    assert past is not None
    seed(world, A, 8)
    world.submit(cpu_job("w", queue="a"))
    admit_first(world)
    assert usage(world) == 8  # and no penalty

    assert past.announce(A, world.now).by_resource == {}
    past.sample(A, world.now)
    assert usage(world) == 0


def test_the_first_status_is_added_once_and_own_ones_are_known() -> None:
    world = sharing_world()
    past = world.engine.usage
    assert past is not None
    world.submit(cpu_job("w", queue="a"))
    written(world, admit_first(world))
    seed(world, A, 8)
    seed(world, A, 8)
    assert usage(world) == 8 + 2

    world.now += seconds(0.5)
    past.announce(A, world.now)
    seed(world, A, 100, at=0)  # what was written, to the second
    assert usage(world) == 10


def test_a_newer_status_of_another_leader_counts() -> None:
    world = sharing_world()
    seed(world, A, 8)
    seed(world, A, 3, at=60)

    assert usage(world) == 3


def test_a_new_weight_moves_a_local_queue() -> None:
    world = sharing_world(cpu=4)
    seed(world, A, 8)
    seed(world, B, 6)
    weight = Quantity.of(2)
    world.engine.upsert_local_queue(LocalQueue(key=A, cluster_queue="cq", weight=weight))
    world.submit(cpu_job("a", queue="a"), cpu_job("b", queue="b", priority=9))

    assert usage(world) == 4
    assert world.admitted() == ["a"]


def test_a_changed_order_gives_a_strict_queue_another_head() -> None:
    world = sharing_world(cpu=4, strategy=QueueingStrategy.STRICT_FIFO)
    past = world.engine.usage
    assert past is not None
    seed(world, A, 1)
    seed(world, B, 2)
    world.submit(cpu_job("blocks", 5, queue="a"), cpu_job("fits", queue="b"))
    assert world.admitted() == []

    seed(world, A, 3, at=60)
    assert world.admitted() == ["fits"]


def test_equal_workloads_of_all_local_queues_park_and_wake_together() -> None:
    world = sharing_world(cpu=4)
    seed(world, A, 1)
    world.submit(cpu_job("a", queue="a"), cpu_job("b", queue="b"), cpu_job("c", queue="b"))
    assert world.admitted() == ["b"]
    late = cpu_job("late", queue="a")
    world.submit(late)
    parked = {p.workload: p.parked for p in world.engine.pending_workloads("cq")}
    assert parked == {f"{NAMESPACE}/{name}": True for name in ("a", "c", "late")}

    world.engine.delete_workload(f"{NAMESPACE}/b", world.now)
    assert world.admitted(after=1) == ["c"]


def test_positions_follow_past_usage() -> None:
    world = sharing_world(cpu=0)
    seed(world, A, 5)
    world.submit(cpu_job("a", queue="a", priority=9), cpu_job("b", queue="b"))

    assert [p.workload for p in world.engine.pending_workloads("cq")] == [
        f"{NAMESPACE}/b",
        f"{NAMESPACE}/a",
    ]


def test_a_cluster_queue_can_change_how_it_orders() -> None:
    world = sharing_world(cpu=0)
    seed(world, A, 5)
    world.submit(cpu_job("a", queue="a", priority=9), cpu_job("b", queue="b"))
    world.cycle()
    spec = make_queue("cq", flavor_quotas("default", cpu=4))
    world.engine.upsert_cluster_queue(spec)

    assert world.admitted(after=1) == ["a"]


def test_a_local_queue_that_never_used_anything_follows_its_weight() -> None:
    world = sharing_world(cpu=4)
    weightless = LocalQueue(key=A, cluster_queue="cq", weight=Quantity.of(0))
    world.engine.upsert_local_queue(weightless)
    world.submit(cpu_job("old", queue="a"), cpu_job("new", queue="b", at=T0 + HOUR))
    world.engine.upsert_local_queue(replace(weightless, weight=Quantity.of(1)))

    assert world.admitted() == ["old"]


@pytest.mark.parametrize(
    ("mode", "victim"), [(AdmissionMode.USAGE_BASED, "more"), (AdmissionMode.NONE, "less")]
)
def test_who_used_more_is_preempted_before_who_matters_less(
    mode: AdmissionMode, victim: str
) -> None:
    """Where past usage counts it decides between LocalQueues (E-90, E-127)."""
    policy = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    world = sharing_world(cpu=8, admission_mode=mode, preemption=policy)
    seed(world, A, 9)
    world.submit(cpu_job("more", queue="a", priority=1), cpu_job("less", queue="b"))
    for admit in [d for d in world.cycle().decisions if isinstance(d, Admit)]:
        written(world, admit)
    world.submit(cpu_job("comes", queue="b", priority=2))

    (preempt,) = (d for d in world.cycle().decisions if isinstance(d, Preempt))
    assert [v.workload for v in preempt.victims] == [f"{NAMESPACE}/{victim}"]


# -------------------------------------------------------------------- with preemption


PREEMPTING = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)


def victims(plan: CyclePlan) -> list[str]:
    preempts = [d for d in plan.decisions if isinstance(d, Preempt)]
    return [victim.workload for preempt in preempts for victim in preempt.victims]


@pytest.mark.parametrize(
    ("mode", "want"), [(AdmissionMode.USAGE_BASED, "a"), (AdmissionMode.NONE, "b")]
)
def test_who_used_most_is_preempted_first_where_usage_counts(
    mode: AdmissionMode, want: str
) -> None:
    """By E-90 alone the younger reservation goes, which is that of "b" (E-127)."""
    world = sharing_world(cpu=8, preemption=PREEMPTING, admission_mode=mode)
    seed(world, A, 50)
    for name in "ab":
        world.submit(cpu_job(name, queue=name))
        written(world, admit_first(world))
        world.now += timedelta(seconds=5)
    world.submit(cpu_job("urgent", queue="b", priority=5))

    assert victims(world.cycle()) == [f"{NAMESPACE}/{want}"]


@pytest.mark.parametrize(("used", "want"), [(0, "high"), (50, "saver")])
def test_who_waits_for_victims_is_first_among_local_queues_that_used_the_same(
    used: int, want: str
) -> None:
    """An entry costs nothing here; "saver" comes before "high" only by what that one used."""
    world = sharing_world(cpu=4, half_life=timedelta(0), preemption=PREEMPTING)
    world.submit(cpu_job("low", queue="b"))
    low = written(world, admit_first(world))
    seed(world, A, used)
    world.submit(cpu_job("high", queue="a", priority=1))
    assert victims(world.cycle()) == [f"{NAMESPACE}/low"]
    world.submit(cpu_job("saver", queue="b", priority=2))
    world.cycle()
    world.submit(with_changes(low, finished=True))

    assert world.admitted() == [want]


# -------------------------------------------------------------------- what ends


@pytest.mark.parametrize("take_back", [Engine.forget, Engine.set_aside])
def test_only_an_assumed_admission_is_acquitted(take_back: Callable[..., None]) -> None:
    world = sharing_world(checks=(CheckRule(name="c"),))
    world.add_check("c")
    world.submit(cpu_job("w", queue="a"))
    written(world, admit_first(world), admitted=False)
    take_back(world.engine, f"{NAMESPACE}/w", world.now)
    assert usage(world) == 2


def test_the_history_of_a_local_queue_ends_with_it() -> None:
    world = sharing_world()
    seed(world, A, 2)
    world.engine.delete_local_queue(A)
    assert usage(world) == 0


def test_a_sample_that_is_announced_says_when_it_was_taken() -> None:
    world = sharing_world()
    seed(world, A, 4)
    assert world.engine.usage is not None
    announced = world.engine.usage.announce(A, world.now + HOUR)
    assert announced == ConsumedResources(
        by_resource={"cpu": Quantity.of(2)}, updated_at=world.now + HOUR
    )


# ---------------------------------------------------------------- shares by owner (P-121)


def owners_world(cpu: int = 4, **owners: str) -> EngineWorld:
    """Namespaces of owners; each has a LocalQueue of its name before one ClusterQueue."""
    sharing = AdmissionFairSharing(half_life=HOUR, sampling_interval=HOUR, by_owner=True)
    quotas = flavor_quotas("default", cpu=cpu)
    queue = make_queue("cq", quotas, admission_mode=AdmissionMode.USAGE_BASED)
    world = EngineWorld(queue, options=EngineOptions(admission_fair_sharing=sharing))
    for namespace, owner in owners.items():
        world.engine.upsert_namespace(namespace, {"multiqueue.dev/owner": owner})
        world.engine.upsert_local_queue(LocalQueue(key=f"{namespace}/lq", cluster_queue="cq"))
    return world


def test_the_queues_of_one_owner_count_as_one() -> None:
    """x used 2 and 2, y used 3: x is served after y, whichever of its queues asks."""
    world = owners_world(x1="x", x2="x", y="y")
    for namespace, cpu in (("x1", 2), ("x2", 2), ("y", 3)):
        seed(world, f"{namespace}/lq", cpu)
    assert [usage(world, f"{name}/lq") for name in ("x1", "x2", "y")] == [4, 4, 3]
    world.submit(cpu_job("a", namespace="x1", priority=9), cpu_job("b", namespace="y"))

    assert world.admitted() == ["b"]


def test_each_queue_counts_for_itself_by_default() -> None:
    world = sharing_world()
    seed(world, A, 2)
    seed(world, B, 3)
    assert (usage(world, A), usage(world, B)) == (2, 3)


def test_a_penalty_of_one_queue_is_its_owner_s() -> None:
    """An entry costs half of its request until it is sampled."""
    world = owners_world(cpu=16, x1="x", x2="x", y="y")
    world.submit(cpu_job("a", namespace="x1"))
    world.cycle()
    assert [usage(world, f"{name}/lq") for name in ("x1", "x2", "y")] == [2, 2, 0]


def test_the_largest_weight_of_an_owner_counts() -> None:
    world = owners_world(x1="x", x2="x")
    seed(world, "x1/lq", 6)
    heavy = LocalQueue(key="x2/lq", cluster_queue="cq", weight=Quantity.of(3))
    world.engine.upsert_local_queue(heavy)
    assert usage(world, "x1/lq") == 2
    world.engine.upsert_local_queue(replace(heavy, weight=Quantity.of(0)))
    assert usage(world, "x2/lq") == 6


def test_owners_are_followed() -> None:
    """A namespace gets another owner, a LocalQueue moves, and is deleted."""
    world = owners_world(x1="x", x2="x", y="y")
    other = make_queue("other", flavor_quotas("default", cpu=4))
    world.engine.upsert_cluster_queue(other)
    for namespace, cpu in (("x1", 1), ("x2", 2), ("y", 4)):
        seed(world, f"{namespace}/lq", cpu)

    def usages() -> list[float]:
        return [usage(world, f"{name}/lq") for name in ("x1", "x2", "y")]

    assert usages() == [3, 3, 4]
    world.engine.upsert_namespace("x2", {"multiqueue.dev/owner": "y"})
    assert usages() == [1, 6, 6]
    world.engine.delete_namespace("x2")
    assert usages() == [1, 2, 4]
    world.engine.upsert_namespace("x2", {"multiqueue.dev/owner": "x"})
    world.engine.upsert_local_queue(LocalQueue(key="x2/lq", cluster_queue="other"))
    assert usages() == [1, 2, 4]
    world.engine.upsert_local_queue(LocalQueue(key="x2/lq", cluster_queue="cq"))
    assert usages() == [3, 3, 4]
    world.engine.delete_local_queue("x2/lq")
    assert usages() == [1, 0, 4]


def test_what_waits_moves_with_its_owner() -> None:
    """The order follows when another queue of the owner uses something."""
    world = owners_world(x1="x", x2="x", y="y")
    world.submit(cpu_job("a", namespace="x1", priority=9), cpu_job("b", namespace="y"))
    seed(world, "x2/lq", 2)

    assert world.admitted() == ["b"]
