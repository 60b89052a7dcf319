"""Where `score` sends a gang, and when it changes its mind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from multiqueue_dispatchers.score import Score

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement
from multiqueue.plugins import CopyState, PodSetView, Round, WeightedTerm, WorkloadView
from multiqueue.plugins.options import GRUDGE, LINE_AGAIN, LOOK_AGAIN, PATIENCE
from multiqueue.plugins.testing import (
    GPU,
    T0,
    assert_dispatcher_contract,
    make_cluster,
    make_lost_cluster,
    make_queue,
    make_unknown_cluster,
    make_view,
    make_workload,
)

ON_CLUSTER = {"wait": "Cluster"}


def choose(*clusters, **fields) -> tuple[str, ...]:
    return Score().nominate(make_view(clusters=clusters, **fields)).clusters


def test_it_keeps_the_contract():
    assert_dispatcher_contract(Score())


def test_where_it_fits_comes_before_where_it_waits():
    assert choose(make_cluster("a", used=8), make_cluster("b")) == ("b",)


def test_the_least_left_over_keeps_gaps_for_large_gangs():
    assert choose(make_cluster("a"), make_cluster("b", gpus=4), gpus=4) == ("b",)
    assert choose(make_cluster("a", used=5), make_cluster("b", gpus=4), gpus=3) == ("a",)


def test_hardware_that_a_job_gains_from_breaks_no_gap_for_large_gangs():
    fast = replace(make_workload(gpus=1), speeds={"a100": 1000, "h100": 2000})
    h100 = make_cluster("b", labels={"accelerator": "h100"})
    begun = make_cluster("a", used=3, labels={"accelerator": "a100"})
    empty = make_cluster("a", labels={"accelerator": "a100"})
    assert choose(begun, h100, workload=fast) == ("a",)
    assert choose(empty, h100, workload=fast) == ("b",)


def test_the_most_left_over_deals_small_jobs_out_evenly():
    clusters = (make_cluster("a", used=1), make_cluster("b"), make_cluster("c", used=6))
    assert choose(*clusters, arguments={"scorers": {"packing": 0, "spreading": 8}}) == ("b",)


def test_equal_clusters_are_told_apart_by_name():
    assert choose(make_cluster("b"), make_cluster("a")) == ("a",)


def test_a_cluster_that_others_come_before_is_taken_where_they_have_no_room():
    avoided = make_cluster("a", gpus=1, avoid="has taint spot:PreferNoSchedule")
    assert choose(avoided, make_cluster("b")) == ("b",)
    assert choose(avoided, make_cluster("b", used=8)) == ("a",)
    verdicts = Score().nominate(make_view(clusters=[avoided])).verdicts
    assert verdicts[0].reason == "fits: 1 of 1 free nvidia.com/gpu, has taint spot:PreferNoSchedule"


def test_hardware_that_was_asked_for_comes_before_what_says_nothing():
    workload = make_workload(gpus=1, node_selector={"accelerator": "h100"})
    plain = make_cluster("a", gpus=1)
    asked = make_cluster("b", labels={"accelerator": "h100"})
    assert choose(plain, asked, workload=workload) == ("b",)
    assert choose(plain, make_cluster("c", labels={"accelerator": "a100"}), workload=workload) == (
        "a",
    )


def test_preferred_hardware_comes_first_and_room_before_it():
    wanted = LabelSelectorRequirement(key="accelerator", operator="In", values=("h100",))
    pods = PodSetView(requests={GPU: 1}, preferred=(WeightedTerm(weight=1, term=(wanted,)),))
    workload = WorkloadView(key="team-a/w", queue="gpus", created_at=T0, pod_sets=(pods,))
    old = make_cluster("a", gpus=1, labels={"accelerator": "a100"})
    assert choose(old, make_cluster("b", labels={"accelerator": "h100"}), workload=workload) == (
        "b",
    )
    busy = make_cluster("b", used=8, labels={"accelerator": "h100"})
    assert choose(old, busy, workload=workload) == ("a",)


def test_waiting_is_done_where_the_demand_is_least():
    queued = replace(make_cluster("a", used=8), queue=replace(make_queue(used=8), backlog={GPU: 8}))
    assert choose(queued, make_cluster("b", used=8), arguments=ON_CLUSTER) == ("b",)


def test_what_has_to_wait_everywhere_waits_in_global_queue_without_a_copy():
    view = make_view(clusters=[make_cluster("a", used=8)], gpus=2)
    got = Score().nominate(view)
    assert got.clusters == ()
    assert got.global_queue is not None
    later = got.global_queue.turn - view.workload.created_at
    assert later == timedelta(minutes=36), "three tenths of two GPUs for an hour"


def test_it_may_come_up_as_it_was_submitted():
    view = make_view(clusters=[make_cluster("a", used=8)], arguments={"passing": 0})
    line = Score().nominate(view).global_queue
    assert line is not None
    assert line.turn == view.workload.created_at


def test_a_worker_that_nothing_is_known_of_is_tried_before_waiting():
    assert choose(make_cluster("a", used=8), make_unknown_cluster("b")) == ("b",)
    assert choose(make_cluster("a"), make_unknown_cluster("b")) == ("a",)


def test_of_unknown_workers_the_one_with_fewest_of_our_own_is_tried():
    busy = replace(make_unknown_cluster("a"), waiting=3)
    assert choose(busy, make_unknown_cluster("b")) == ("b",)


def test_there_is_one_copy_at_a_time():
    assert len(choose(*(make_cluster(name) for name in "abc"))) == 1


def test_where_nobody_can_every_reason_is_told():
    got = Score().nominate(
        make_view(clusters=[make_lost_cluster("a"), make_cluster("b", gpus=1)], gpus=4)
    )
    assert got.clusters == ()
    assert [(v.cluster, v.reason) for v in got.verdicts] == [
        ("a", "is not connected"),
        ("b", "has at most 1 nvidia.com/gpu, 4 asked"),
    ]
    assert got.ask_again_at == T0 + LOOK_AGAIN


class TestChangingItsMind:
    def waiting_on(self, name: str, *, minutes: float = 10) -> dict[str, object]:
        since = Round(at=T0 - timedelta(minutes=minutes), clusters=(name,))
        return {"nominated": [name], "history": [since]}

    def test_a_gang_moves_to_where_room_came(self):
        here = replace(make_cluster("a", used=8), copy=CopyState.PENDING)
        assert choose(here, make_cluster("b"), **self.waiting_on("a")) == ("b",)

    def test_a_gang_does_not_move_from_one_queue_to_the_next(self):
        here = replace(
            make_cluster("b", used=8),
            copy=CopyState.PENDING,
            queue=replace(make_queue(used=8), backlog={GPU: 8}),
        )
        asked = {"arguments": ON_CLUSTER, **self.waiting_on("b")}
        assert choose(make_cluster("a", used=8), here, **asked) == ("b",)

    def test_a_gang_that_holds_quota_stays(self):
        here = replace(make_cluster("b", used=8), copy=CopyState.RESERVED)
        assert choose(make_cluster("a"), here, **self.waiting_on("b")) == ("b",)

    def test_a_gang_does_not_leave_room_for_better_room(self):
        here = replace(make_cluster("b"), copy=CopyState.PENDING)
        better = make_cluster("a", gpus=1)
        assert choose(better, here, **self.waiting_on("b", minutes=0.1)) == ("b",)

    def test_a_cluster_that_did_not_start_it_is_put_last_for_a_while(self):
        here = replace(make_cluster("a"), copy=CopyState.PENDING)
        assert choose(here, make_cluster("b"), **self.waiting_on("a")) == ("b",)
        tried = [
            Round(at=T0 - timedelta(minutes=3), clusters=("a",)),
            Round(at=T0 - timedelta(minutes=1), clusters=("b",)),
        ]
        assert choose(make_cluster("a"), make_cluster("c"), history=tried) == ("c",)
        long_ago = [
            Round(at=T0 - GRUDGE - timedelta(minutes=2), clusters=("a",)),
            Round(at=T0 - GRUDGE - timedelta(minutes=1), clusters=("b",)),
        ]
        assert choose(make_cluster("a"), make_cluster("c"), history=long_ago) == ("a",)

    def test_it_leaves_a_cluster_that_cannot_take_it_any_more(self):
        assert choose(make_lost_cluster("a"), make_cluster("b"), **self.waiting_on("a")) == ("b",)

    def test_it_asks_again_when_its_patience_ends(self):
        view = make_view(clusters=[make_cluster("a")], **self.waiting_on("a", minutes=0.25))
        got = Score().nominate(view).ask_again_at
        assert got == T0 - timedelta(minutes=0.25) + PATIENCE
        full = make_view(clusters=[make_cluster("a", used=8)], arguments=ON_CLUSTER)
        assert Score().nominate(full).ask_again_at == T0 + LOOK_AGAIN
        is_queued = replace(full, arguments={})
        assert Score().nominate(is_queued).ask_again_at == T0 + LINE_AGAIN
