"""What a change makes different."""

from __future__ import annotations

import pytest

from multiqueue.whatif.difference import Effect
from multiqueue.whatif.snapshot import Snapshot
from multiqueue.whatif.trial import TriedChanges, compare_worlds, try_out
from tests.unit.whatif.test_changes import no_files
from tests.unit.whatif.worlds import add_job, make_job, make_snapshot

SIXTEEN = "quota cq/research nvidia.com/gpu=16"


def tried(snapshot: Snapshot, *changes: str) -> TriedChanges:
    return try_out(snapshot, changes, no_files)


def effects(found: TriedChanges) -> dict[str, Effect]:
    return {e.known.job.partition("/")[2]: e.effect for e in found.difference.effected}


def full() -> Snapshot:
    """Research has 8 A100 and training 4 H100; two jobs wait for more."""
    holding = (
        make_job("research", "big", 8, accelerator="a100"),
        make_job("training", "other", 4, accelerator="h100"),
    )
    first = make_job("research", "first", 4, accelerator="a100")
    second = make_job("research", "second", 8, accelerator="a100")
    return make_snapshot(first, second, holding=holding)


def test_more_quota_starts_who_fits_and_moves_up_who_does_not() -> None:
    got = tried(full(), SIXTEEN)
    (done,) = got.changes
    assert done.endswith("gpu from 3 to 12 in flavor a100, from 1 to 4 in flavor h100")
    assert effects(got) == {"first": Effect.STARTS, "second": Effect.SOONER}
    assert (got.difference.sums.starts, got.difference.sums.stopped) == (1, 0)


def test_no_change_makes_no_difference() -> None:
    got = tried(full(), "quota cq/research nvidia.com/gpu=4")
    assert effects(got) == {}
    assert got.difference.sums.gpu_hours_lost == 0


def test_less_quota_stops_nobody_but_keeps_jobs_from_starting() -> None:
    snapshot = make_snapshot(make_job("training", "starts", 4, accelerator="a100"))
    got = tried(snapshot, "quota cq/training nvidia.com/gpu@a100=0", "hold cq/research")
    assert effects(got) == {}  # it borrows what the others lend
    got = tried(snapshot, "cohort cq/training=-", "quota cq/training nvidia.com/gpu@a100=3")
    assert effects(got) == {"starts": Effect.NEVER}
    assert got.difference.sums.never == 1


def test_a_drain_names_who_is_stopped_and_the_work_at_stake() -> None:
    got = tried(full(), "drain worker-a100")
    assert effects(got)["big"] is Effect.STOPPED
    assert got.difference.sums.gpu_hours_lost == 4  # 8 GPUs for half an hour
    (big,) = (each.after for each in got.difference.effected if each.known.job == "Job/big")
    assert big is not None
    assert big.stop is not None
    assert big.stop.message == "Worker worker-a100 is taken out of use"


def test_a_priority_decides_who_is_stopped() -> None:
    snapshot = make_snapshot(
        make_job("research", "waits", 3, accelerator="a100"),
        holding=[make_job("training", "borrows", 8, accelerator="a100")],
    )
    assert effects(tried(snapshot, "priority research/waits=1")) == {
        "waits": Effect.STARTS,
        "borrows": Effect.STOPPED,
    }


def test_a_cancelled_job_is_gone_and_its_room_used() -> None:
    got = tried(full(), "cancel research/big")
    assert effects(got) == {"big": Effect.GONE, "first": Effect.STARTS, "second": Effect.SOONER}


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        pytest.param(4, Effect.NEW, id="it waits for room"),
        pytest.param(9, Effect.NEVER, id="no worker has so many"),
    ],
)
def test_a_submitted_job_is_new(gpus: int, want: Effect) -> None:
    snapshot = full()
    changed = snapshot.copy()
    add_job(changed, make_job("training", "new", gpus, accelerator="a100"), 200)
    assert effects(compare_worlds(snapshot, changed, ()))["new"] is want


def test_an_added_worker_takes_what_no_other_can_hold() -> None:
    wide = make_job("research", "wide", 12, accelerator="a100")
    more = "quota cq/research nvidia.com/gpu@a100=20 cpu@a100=500 memory@a100=9Ti"
    assert effects(tried(make_snapshot(wide), more)) == {}
    got = tried(make_snapshot(wide), more, "add worker-new a100=16")
    assert effects(got) == {"wide": Effect.STARTS}
    assert got.after.worker_gpus == 28
    assert got.after.gpus_beyond_workers == 0


def test_jobs_beyond_the_hardware_wait_on_a_worker() -> None:
    got = tried(full(), SIXTEEN)
    assert got.before.gpus_beyond_workers == 0
    assert got.after.gpus_beyond_workers == 4
