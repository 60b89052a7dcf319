"""A replay decides as the manager does, and says why in the same words."""

from __future__ import annotations

from multiqueue.whatif.outcome import ReplayFate as Fate
from multiqueue.whatif.outcome import ReplayOutcome
from multiqueue.whatif.replay import replay
from tests.unit.whatif.worlds import make_job, make_snapshot


def fates(outcome: ReplayOutcome) -> dict[str, Fate]:
    return {row.job.partition("/")[2]: row.fate for row in outcome.workloads.values()}


def test_what_runs_keeps_its_quota_and_what_fits_starts_in_order() -> None:
    runs = make_job("research", "runs", 3, accelerator="a100")
    first, second = make_job("training", "first", 4), make_job("inference", "second", 1)
    got = replay(make_snapshot(first, second, holding=[runs]))
    assert fates(got) == {
        "runs": Fate.KEEPS,
        "first": Fate.STARTS,
        "second": Fate.STARTS,
    }
    assert got.problem == ""
    starting = [row for row in got.workloads.values() if row.order is not None]
    assert sorted(row.order or 0 for row in starting) == [1, 2]


def test_a_waiting_job_has_its_place_and_the_words_of_why() -> None:
    runs = [make_job("research", f"runs-{n}", 4, accelerator="a100") for n in (1, 2)]
    behind = (make_job("training", "one", 2, accelerator="a100"),)
    behind += (make_job("training", "two", 2, accelerator="a100"),)
    got = replay(make_snapshot(*behind, holding=runs))
    one, two = (row for row in got.workloads.values() if row.fate is Fate.WAITS)
    assert (one.position, two.position) == (1, 2)
    assert "2 more needed" in one.why
    assert one.reason == "WaitingForQuota"


def test_a_job_that_no_worker_can_hold_waits_although_quota_is_free() -> None:
    wide = make_job("research", "wide", 12)
    snapshot = make_snapshot(wide)
    for queue in snapshot.of("ClusterQueue").values():
        for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
            flavor["resources"][2]["nominalQuota"] = 100
    (row,) = replay(snapshot).workloads.values()
    assert row.fate is Fate.WAITS
    assert "no worker can hold 12 x nvidia.com/gpu: worker-a100 has at most 8" in row.why


def test_a_worker_that_is_not_in_the_snapshot_can_hold_anything() -> None:
    snapshot = make_snapshot(make_job("research", "wide", 9, accelerator="h100"))
    for queue in snapshot.of("ClusterQueue").values():
        for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
            flavor["resources"][2]["nominalQuota"] = 100
    del snapshot.clusters["worker-h100"]
    (row,) = replay(snapshot).workloads.values()
    assert row.fate is Fate.STARTS


def test_the_lender_takes_its_quota_back_from_a_less_urgent_borrower() -> None:
    borrower = make_job("training", "borrower", 8, accelerator="a100")
    owner = make_job("research", "owner", 3, accelerator="a100", priority="inference-prod")
    got = replay(make_snapshot(owner, holding=[borrower]))
    assert fates(got) == {"borrower": Fate.STOPS, "owner": Fate.STARTS}
    (stop,) = (row.stop for row in got.workloads.values() if row.stop is not None)
    assert stop.by.startswith("research/job-owner")
    assert stop.reason == "InCohortReclamation"
    assert stop.lost_seconds == 1800
    assert stop.released["a100", "nvidia.com/gpu"] == 8


def test_an_eviction_that_has_begun_counts_as_done() -> None:
    leaving = make_job("training", "leaving", 8, accelerator="a100")
    snapshot = make_snapshot(holding=[leaving])
    (obj,) = snapshot.of("Workload").values()
    evicted = {"type": "Evicted", "status": "True", "reason": "Deactivated", "message": ""}
    obj["spec"]["active"] = False
    obj["status"]["conditions"].append({**evicted, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    got = replay(snapshot)
    assert fates(got) == {"leaving": Fate.STOPS}
    assert got.queues["training"].used == 0


def test_a_replay_leaves_the_snapshot_alone() -> None:
    snapshot = make_snapshot(make_job("training", "first", 4))
    before = snapshot.copy()
    replay(snapshot)
    assert snapshot == before
