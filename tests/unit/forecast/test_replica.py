"""What a replica of a worker answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from multiqueue.engine.queues.entry import Entry, rank_of
from multiqueue.forecast.replica import Replica
from multiqueue.forecast.strict_fifo import MOST_CHANGES
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
    StopPolicy,
)
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Admission, PodSetAssignment, Workload
from multiqueue.plugins.forecast import Forecast, Prospect
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    quota,
    reserved,
    seconds,
)

GPU = "nvidia.com/gpu"
A100 = ("a100", GPU)


def make_replica(*queues: ClusterQueue, cohorts: Iterable[Cohort] = ()) -> Replica:
    replica = Replica()
    replica.upsert_flavor(ResourceFlavor(name="a100"))
    for cohort in cohorts:
        replica.upsert_cohort(cohort)
    for queue in queues or (make_queue("cq", flavor_quotas("a100", gpu=8)),):
        replica.upsert_cluster_queue(queue)
        lq = LocalQueue(key=f"{NAMESPACE}/{queue.name}", cluster_queue=queue.name)
        replica.upsert_local_queue(lq)
    return replica


def gang(name: str, gpus: int, *, queue: str = "cq", **fields: object) -> Workload:
    return make_workload(name, queue=queue, pod_sets=[pod_set(count=gpus, gpu=1)], **fields)


def running(name: str, gpus: int, *, queue: str = "cq", **fields: object) -> Workload:
    assignment = PodSetAssignment(name="main", flavors={GPU: "a100"}, usage={GPU: gpus}, count=gpus)
    admission = Admission(cluster_queue=queue, pod_sets=(assignment,))
    return reserved(gang(name, gpus, queue=queue, **fields), admission)


def ask(replica: Replica, workload: Workload, *, after: float = 0) -> Forecast:
    found = replica.forecast(workload, T0 + seconds(after))
    assert found is not None
    return found


def test_what_fits_takes_its_own_quota_and_says_what_is_left() -> None:
    replica = make_replica()
    replica.upsert_workload(running("a", 2), T0)
    found = ask(replica, gang("b", 4))
    assert found.prospect is Prospect.FITS
    assert (found.taken, found.borrowed, found.left) == ({A100: 4}, {}, {A100: 2})
    assert found.start is not None
    assert found.start.at == T0


def test_what_goes_beyond_the_guarantee_borrows() -> None:
    small = make_queue("cq", flavor_quotas("a100", gpu=2), cohort="all")
    large = make_queue("other", flavor_quotas("a100", gpu=6), cohort="all")
    found = ask(make_replica(small, large), gang("b", 5))
    assert found.prospect is Prospect.BORROWS
    assert found.borrowed == {A100: 3}
    assert "borrows 3 nvidia.com/gpu (a100) of 5" in found.reason


def test_whoever_preempts_is_told_whom_and_what_is_lost() -> None:
    policy = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    replica = make_replica(make_queue("cq", flavor_quotas("a100", gpu=8), preemption=policy))
    replica.upsert_workload(running("low", 6), T0)
    found = ask(replica, gang("high", 4, priority=10), after=3600)
    assert found.prospect is Prospect.PREEMPTS
    (victim,) = found.victims
    assert (victim.key, victim.queue, victim.lost) == ("team/low", "cq", timedelta(hours=6))
    assert "6.0 GPU hours" in found.reason


def test_what_has_no_room_waits() -> None:
    replica = make_replica()
    replica.upsert_workload(running("a", 6), T0)
    found = ask(replica, gang("b", 4))
    assert found.prospect is Prospect.WAITS
    assert "2 more needed" in found.reason


def test_a_gang_that_is_too_large_is_told_the_largest() -> None:
    replica = make_replica()
    replica.upsert_workload(running("a", 6), T0)
    found = ask(replica, gang("b", 9))
    assert (found.prospect, found.largest) == (Prospect.NEVER, 8)


def test_other_hardware_is_never_and_has_no_largest() -> None:
    workload = make_workload("b", queue="cq", pod_sets=[pod_set(count=1, gpu=1, cpu=1)])
    found = ask(make_replica(), workload)
    assert (found.prospect, found.largest) == (Prospect.NEVER, None)


def test_nobody_passes_in_a_strict_queue() -> None:
    strict = make_queue("cq", flavor_quotas("a100", gpu=8), strategy=QueueingStrategy.STRICT_FIFO)
    replica = make_replica(strict)
    replica.upsert_workload(running("a", 6), T0)
    replica.upsert_workload(gang("first", 4), T0)
    assert ask(replica, gang("b", 1), after=1).prospect is Prospect.WAITS
    assert ask(replica, gang("c", 1, priority=1), after=1).prospect is Prospect.FITS


class Counted(dict[str, Entry]):
    """Counts how often it is gone through."""

    count = 0

    def values(self) -> Any:
        self.count += 1
        return super().values()

    def items(self) -> Any:
        self.count += 1
        return super().items()


def test_who_waits_in_a_strict_queue_is_gone_through_when_that_changes_only() -> None:
    strict = make_queue("cq", flavor_quotas("a100", gpu=8), strategy=QueueingStrategy.STRICT_FIFO)
    replica = make_replica(strict)
    replica.upsert_workload(running("a", 6), T0)
    for name in "bcde":
        replica.upsert_workload(gang(name, 4, priority=1), T0)
    trial = replica.verdicts.attempt(gang("x", 1))
    assert trial is not None
    trial.pending.members = counted = Counted(trial.pending.members)
    for shape in (1, 2):
        for priority, before in ((0, 4), (1, 4), (2, 0)):
            forecast = ask(replica, gang("x", shape, priority=priority), after=1)
            assert forecast.reason.endswith(f"{before} before it") == bool(before)
    assert counted.count == 1
    assert ask(replica, gang("d", 1, priority=1)).reason.endswith("2 before it")
    assert ask(replica, gang("d", 2, priority=0)).reason.endswith("3 before it")
    replica.delete_workload("team/b", T0)
    assert ask(replica, gang("d", 1)).reason.endswith("2 before it")
    assert counted.count == 1
    for number in range(MOST_CHANGES + 1):
        replica.delete_workload(f"team/gone-{number}", T0)
    assert ask(replica, gang("d", 1)).reason.endswith("2 before it")
    assert counted.count == 2


def test_who_waits_before_is_known_whatever_came_and_went() -> None:
    random = Random(7)
    queues = [
        make_queue(name, flavor_quotas("a100", gpu=8), strategy=QueueingStrategy.STRICT_FIFO)
        for name in ("cq", "other")
    ]
    replica = make_replica(*queues)
    asked = gang("n3", 1, priority=1)
    for _ in range(300):
        name, queue = f"n{random.randrange(9)}", random.choice(("cq", "other"))
        size, priority = random.randrange(1, 5), random.randrange(3)
        at = T0 + seconds(random.randrange(100))
        match random.randrange(4):
            case 0:
                replica.delete_workload(f"{NAMESPACE}/{name}", T0)
            case 1:
                replica.upsert_workload(running(name, size, queue=queue), T0)
            case _:
                replica.upsert_workload(gang(name, size, queue=queue, priority=priority, at=at), T0)
        trial = replica.verdicts.attempt(asked)
        assert trial is not None
        members = trial.pending.members.values()
        before = sum(e.rank < rank_of(asked) for e in members if e.key != asked.key)
        assert replica.verdicts.count_before(trial, asked) == before


@pytest.mark.parametrize(
    "queue",
    [
        pytest.param("nowhere", id="no LocalQueue"),
        pytest.param("stopped", id="a ClusterQueue that admits nobody"),
    ],
)
def test_what_must_be_mended_first_has_no_forecast(queue: str) -> None:
    stopped = make_queue("stopped", flavor_quotas("a100", gpu=8), stop_policy=StopPolicy.HOLD)
    assert make_replica(stopped).forecast(gang("b", 1, queue=queue), T0) is None


def test_a_burst_does_not_see_the_same_room_twice() -> None:
    replica = make_replica()
    for name in ("a", "b"):
        assert ask(replica, gang(name, 4)).prospect is Prospect.FITS
        replica.assume(gang(name, 4), T0)
    assert ask(replica, gang("c", 4)).prospect is Prospect.WAITS


def test_what_was_sent_counts_until_the_worker_has_decided() -> None:
    replica = make_replica()
    replica.assume(gang("a", 8), T0)
    replica.upsert_workload(gang("a", 8), T0)
    assert ask(replica, gang("b", 4)).prospect is Prospect.WAITS
    replica.upsert_workload(running("a", 8), T0)
    assert replica.assumed == frozenset()
    replica.delete_workload("team/a", T0)
    assert ask(replica, gang("b", 4)).prospect is Prospect.FITS


@pytest.mark.parametrize("arrived", [False, True], ids=["never came", "came and waits"])
def test_what_was_assumed_wrongly_is_taken_back(arrived: bool) -> None:
    replica = make_replica()
    replica.assume(gang("a", 8), T0)
    if arrived:
        replica.upsert_workload(gang("a", 8), T0)
    replica.forget("team/a", T0)
    assert ask(replica, gang("b", 4)).prospect is Prospect.FITS


def test_its_own_quota_does_not_count_against_it() -> None:
    replica = make_replica()
    replica.upsert_workload(running("a", 8), T0)
    found = ask(replica, gang("a", 8))
    assert (found.prospect, found.reason) == (Prospect.FITS, "has its quota there")


def test_lent_quota_may_be_limited() -> None:
    small = make_queue("cq", flavor_quotas("a100", gpu=quota(GPU, 2, borrow=1)), cohort="all")
    large = make_queue("other", flavor_quotas("a100", gpu=6), cohort="all")
    found = ask(make_replica(small, large, cohorts=[Cohort(name="all")]), gang("b", 5))
    assert (found.prospect, found.largest) == (Prospect.NEVER, 3)


class TestWithoutOthers:
    def make(self) -> Replica:
        replica = make_replica()
        for name, gpus in (("m", 2), ("n", 4)):
            replica.upsert_workload(running(name, gpus), T0)
        return replica

    @pytest.mark.parametrize(
        ("gpus", "gone", "fits"),
        [(2, "", True), (4, "", False), (4, "m", True), (7, "n", False), (8, "mn", True)],
    )
    def test_a_gang_fits_if_enough_others_are_gone(self, gpus: int, gone: str, fits: bool) -> None:
        replica = self.make()
        names = {f"{NAMESPACE}/{name}" for name in gone}
        assert replica.fits_without(gang("k", gpus), names) is fits
        assert ask(replica, gang("k", 3)).prospect is Prospect.WAITS, "nothing was changed"
        assert ask(replica, gang("k", 2)).prospect is Prospect.FITS

    def test_who_waits_before_it_in_a_strict_queue_still_does(self) -> None:
        strict = make_queue(
            "cq", flavor_quotas("a100", gpu=8), strategy=QueueingStrategy.STRICT_FIFO
        )
        replica = make_replica(strict)
        replica.upsert_workload(running("m", 4), T0)
        replica.upsert_workload(gang("before", 8, priority=1), T0)
        assert not replica.fits_without(gang("k", 8), {f"{NAMESPACE}/m"})
