"""Replays of random fleets: quota is never overdrawn, order and names do not matter."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.runtime.demo.jobs import DemoJob
from multiqueue.runtime.demo.objects import PRIORITIES, TEAMS, WORKERS
from multiqueue.whatif.anonymous import anonymize
from multiqueue.whatif.outcome import ReplayedWorkload, ReplayOutcome
from multiqueue.whatif.replay import replay
from multiqueue.whatif.snapshot import Snapshot, pack, unpack
from multiqueue.whatif.trial import try_out
from tests.unit.whatif.worlds import make_job, make_snapshot

TEAM_NAMES = [team.name for team in TEAMS]


@st.composite
def fleets(draw: st.DrawFn) -> Snapshot:
    """The demo's queues, with jobs that run within the hardware and others that wait."""
    holding: list[DemoJob] = []
    for worker in WORKERS:
        left = worker.gpus
        while left and draw(st.booleans()):
            gpus = draw(st.integers(1, left))
            left -= gpus
            holding.append(draw_job(draw, len(holding), gpus, worker.flavor))
    waiting = [
        draw_job(
            draw,
            100 + number,
            draw(st.integers(1, 9)),
            draw(st.sampled_from(["", *(worker.flavor for worker in WORKERS)])),
        )
        for number in range(draw(st.integers(0, 5)))
    ]
    return make_snapshot(*waiting, holding=holding)


def draw_job(draw: st.DrawFn, number: int, gpus: int, accelerator: str) -> DemoJob:
    team = draw(st.sampled_from(TEAM_NAMES))
    priority = draw(st.sampled_from(["", *PRIORITIES]))
    return make_job(team, f"job-{number}", gpus, accelerator=accelerator, priority=priority)


def tell(row: ReplayedWorkload) -> tuple[object, ...]:
    return (row.fate, row.order, row.position, row.gpus, row.priority, row.reason, row.borrows)


@given(fleets())
@settings(max_examples=40, deadline=None)
def test_the_cohort_holds_no_more_than_its_quota(snapshot: Snapshot) -> None:
    outcome = replay(snapshot)
    assert outcome.problem == ""
    used = sum(queue.used for queue in outcome.queues.values())
    held = (row for row in outcome.workloads.values() if row.fate.has_quota)
    assert used == sum(row.gpus for row in held) <= sum(worker.gpus for worker in WORKERS)


@given(fleets(), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_order_of_objects_does_not_matter(snapshot: Snapshot, chance: object) -> None:
    shuffled = Snapshot(taken_at=snapshot.taken_at, configuration=snapshot.configuration)
    every = [
        (c, o) for c, kinds in snapshot.clusters.items() for k in kinds.values() for o in k.values()
    ]
    chance.shuffle(every)  # type: ignore[attr-defined]
    for cluster, obj in every:
        shuffled.put(obj, cluster)
    assert replay(shuffled) == replay(snapshot)


@given(fleets())
@settings(max_examples=25, deadline=None)
def test_a_file_and_other_names_replay_alike(snapshot: Snapshot) -> None:
    want: ReplayOutcome = replay(snapshot)
    assert replay(unpack(pack(snapshot), "f")) == want
    got = replay(anonymize(snapshot))
    assert list(map(tell, got.workloads.values())) == list(map(tell, want.workloads.values()))


@given(fleets(), st.integers(0, 20))
@settings(max_examples=25, deadline=None)
def test_a_change_that_changes_nothing_makes_no_difference(snapshot: Snapshot, gpus: int) -> None:
    def no_files(_: Snapshot, name: str) -> list[str]:
        raise AssertionError(name)

    there_and_back = [f"quota cq/research nvidia.com/gpu={gpus}"]
    there_and_back += ["quota cq/research nvidia.com/gpu@a100=3 nvidia.com/gpu@h100=1"]
    assert try_out(snapshot, there_and_back, no_files).difference.effected == ()
