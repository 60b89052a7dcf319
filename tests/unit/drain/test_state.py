"""Conditions of drained workers, where their Workloads could go, and when each may leave."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.cluster_orders import read_orders
from multiqueue.api.conditions import ACTIVE, CORDONED, CheckState, DrainReason
from multiqueue.api.names import CHECKPOINT_SECONDS, CORDON, DRAIN
from multiqueue.api.v1beta2.meta import Condition, format_time
from multiqueue.dispatch.decide.cluster_state import ClusterState
from multiqueue.dispatch.decide.plan import SetCheck
from multiqueue.drain.chance import Chance
from multiqueue.drain.conditions import (
    build_conditions,
    describe_drain,
    find_unfinished,
    with_conditions,
)
from multiqueue.drain.relocation import RelocationProspect, combine
from multiqueue.drain.report import DrainReport, find_stay, parse_report
from multiqueue.drain.stop_time import find_cut_off, find_stop_time
from multiqueue.plugins import Fit, Outlook
from tests.unit.dispatch.builders import (
    T0,
    make_admitted,
    make_cluster,
    make_copy,
    make_finish,
    make_local,
    make_lost,
    make_plan,
    make_ready,
    make_remote_job,
    make_running,
    minutes,
)

LEAVE = 'Cluster "a" is being drained'
EARLIER = make_remote_job(earlier_key="ns/old", earlier_copy=make_admitted())
ACTIVE_NOW = Condition(
    type=ACTIVE, status="True", reason="Active", last_transition_time=format_time(T0)
)


class TestRule:
    def test_it_is_sent_round_again_when_it_is_its_turn(self) -> None:
        plan = make_plan(make_ready(), make_running(leave=LEAVE))
        assert plan.rule == "drain"
        assert plan.removals == ()
        assert plan.steps == (
            SetCheck(state=CheckState.RETRY, message=LEAVE, requeue_after=timedelta()),
        )

    def test_it_goes_on_until_then(self) -> None:
        assert make_plan(make_ready(), make_running()).rule == "follow"

    @pytest.mark.parametrize(
        ("cluster", "rule"),
        [
            (make_cluster(workload=make_copy(), job=EARLIER, leave=LEAVE), "drain"),
            (make_cluster(job=EARLIER, leave=LEAVE), "drain"),
            (make_cluster(workload=make_admitted(), job=EARLIER, leave=LEAVE), "take_over"),
            (make_lost(leave=LEAVE), "follow"),
        ],
        ids=["it waits there", "no copy yet", "about to have its job", "out of reach"],
    )
    def test_an_elastic_job_that_waits_to_grow_leaves_with_what_runs(
        self, cluster: ClusterState, rule: str
    ) -> None:
        """There may never be room for it: nothing new is admitted there."""
        local = make_local(elastic=True, earlier=("ns/old",), cluster_name="a")
        plan = make_plan(local, cluster)
        assert plan.rule == rule
        retry = SetCheck(state=CheckState.RETRY, message=LEAVE, requeue_after=timedelta())
        assert (retry in plan.steps) is (rule == "drain")

    @pytest.mark.parametrize(
        ("cluster", "rule"),
        [
            (make_lost(leave=LEAVE), "follow"),
            (make_cluster("a", leave=LEAVE), "follow"),
            (
                make_cluster("a", leave=LEAVE, workload=make_admitted(finished=make_finish())),
                "finish",
            ),
        ],
        ids=["a worker that is out of reach stops nothing", "it is gone there", "it finished"],
    )
    def test_what_does_not_run_there_is_not_moved(self, cluster: ClusterState, rule: str) -> None:
        assert make_plan(make_ready(), cluster).rule == rule

    def test_an_eviction_that_is_under_way_is_not_begun_again(self) -> None:
        local = make_local(evicted_at=T0, nominated=())
        assert make_plan(local, make_running(leave=LEAVE)).rule == "evict"

    def test_a_cordon_withdraws_what_waits_and_leaves_alone_what_runs(self) -> None:
        closed = make_cluster("a", workload=make_admitted(), refusal="is cordoned")
        plan = make_plan(make_local(nominated=("a",)), closed)
        assert [removal.why for removal in plan.removals] == ["is cordoned"]
        running = make_running(refusal="is cordoned")
        assert make_plan(make_ready(), running).removals == ()


class TestConditions:
    def conditions(self, *, drained: Condition | None = None, **marks: str) -> list[Condition]:
        keys = {"cordon": CORDON, "drain": DRAIN}
        orders = read_orders({keys[name]: value for name, value in marks.items()})
        return build_conditions("a", orders, drained)

    def test_a_worker_in_use_has_none(self) -> None:
        assert self.conditions() == []

    def test_a_cordon_says_why(self) -> None:
        (got,) = self.conditions(cordon="firmware")
        assert (got.type, got.status, got.reason) == (CORDONED, "True", DrainReason.CORDONED)
        assert got.message == 'Nothing new goes to "a": it is cordoned (firmware)'

    def test_an_order_that_cannot_be_understood_is_told(self) -> None:
        cordoned, drained = self.conditions(drain="fast")
        assert (cordoned.reason, drained.reason) == (DrainReason.UNCLEAR, DrainReason.UNCLEAR)
        assert (cordoned.status, drained.status) == ("True", "False")
        assert '"fast": use true' in drained.message

    def test_the_others_are_left_alone(self) -> None:
        wanted = self.conditions(cordon="true")
        after = with_conditions((ACTIVE_NOW,), wanted, now=T0, generation=3)
        assert [c.type for c in after] == [ACTIVE, CORDONED]
        assert after[0] == ACTIVE_NOW
        assert with_conditions(after, wanted, now=T0 + minutes(1), generation=3) is after
        assert with_conditions(after, [], now=T0, generation=3) == (ACTIVE_NOW,)

    @pytest.mark.parametrize(
        ("report", "chance", "want"),
        [
            (DrainReport(), None, ("True", DrainReason.DRAINED)),
            (DrainReport(moving=1, ends_at=T0), None, ("False", DrainReason.DRAINING)),
            (DrainReport(left=1, ends_at=T0), None, ("False", DrainReason.DRAINING)),
            (DrainReport(left=1, trouble="x"), None, ("False", DrainReason.WAITING)),
            (DrainReport(left=1, staying={"k": "x"}), Chance.ROOM, ("False", DrainReason.WAITING)),
            (DrainReport(left=1, staying={"k": "x"}), Chance.MEND, ("False", DrainReason.STUCK)),
            (DrainReport(left=1, staying={"k": "x"}), Chance.NEVER, ("False", DrainReason.STUCK)),
        ],
    )
    def test_the_reason_says_whether_somebody_must_act(
        self, report: DrainReport, chance: Chance | None, want: tuple[str, str]
    ) -> None:
        got = describe_drain({"k": chance} if chance is not None else {}, report)
        assert (got.status, got.reason) == want

    def test_a_drain_that_was_begun_is_gone_on_with(self) -> None:
        report = DrainReport(moved=2, left=1, ends_at=T0)
        drained = describe_drain({}, report)
        cluster = api.MultiKueueCluster(status=api.MultiKueueClusterStatus(conditions=(drained,)))
        assert find_unfinished(cluster) == report
        assert find_unfinished(api.MultiKueueCluster()) is None


STAYING = {
    "team/job-1": "no room: b waits: 2 asked; c waits: 2 asked",
    "team/job-2": "never",
    "team/job-3": "no room: b waits: 2 asked; c waits: 2 asked",
}


class TestReports:
    def test_those_of_one_reason_are_told_together(self) -> None:
        message = str(DrainReport(moved=1, left=3, staying=STAYING))
        assert message == (
            "1 moved, 0 moving, 3 left; at most 0.00 GPU-hours of work lost; "
            "team/job-1, team/job-3 stay: no room: b waits: 2 asked; c waits: 2 asked; "
            "team/job-2 stays: never"
        )

    def test_why_one_stays_is_read_back(self) -> None:
        staying = {**STAYING, **{f"team/more-{i}": "other" for i in range(9)}}
        message = str(DrainReport(left=12, staying=staying))
        assert message.endswith("; 2 more stay")
        for key, why in list(staying.items())[:10]:
            assert find_stay(message, key) == why
        assert find_stay(message, "team/more-8") == ""
        assert find_stay(message, "team/job") == ""

    def test_what_was_stopped_by_force_was_not_moved(self) -> None:
        report = DrainReport(moved=1, stopped=2)
        assert str(report).startswith("1 moved, 2 stopped by force, 0 moving, 0 left")
        assert parse_report(str(report)) == report


class TestProspects:
    @pytest.mark.parametrize(
        ("outlooks", "chance", "cluster"),
        [
            ({}, Chance.NEVER, ""),
            ({"b": Outlook.NEVER, "c": Outlook.NEVER}, Chance.NEVER, ""),
            ({"b": Outlook.NEVER, "c": Outlook.UNAVAILABLE}, Chance.MEND, ""),
            ({"b": Outlook.UNAVAILABLE, "c": Outlook.WAITS}, Chance.ROOM, ""),
            ({"b": Outlook.WAITS, "c": Outlook.UNKNOWN, "d": Outlook.FITS}, Chance.NOW, "d"),
            ({"b": Outlook.WAITS, "c": Outlook.UNKNOWN}, Chance.NOW, "c"),
        ],
    )
    def test_the_best_cluster_counts(
        self, outlooks: dict[str, Outlook], chance: Chance, cluster: str
    ) -> None:
        got = combine({n: Fit(outlook=outlook, reason="r") for n, outlook in outlooks.items()})
        assert (got.chance, got.cluster) == (chance, cluster)
        assert bool(got.why) is (chance is not Chance.NOW)

    def test_the_reasons_are_told_cluster_by_cluster(self) -> None:
        fits = {
            "b": Fit(outlook=Outlook.NEVER, reason="has at most 4 gpu, 8 asked"),
            "c": Fit(outlook=Outlook.WAITS, reason="waits: 8 gpu asked, 2 free"),
        }
        assert combine(fits) == RelocationProspect(
            chance=Chance.ROOM,
            why="no other cluster has room for it now: b has at most 4 gpu, 8 asked; "
            "c waits: 8 gpu asked, 2 free",
        )


class TestStopTime:
    def workload(self, *graces: int | None, checkpoint: str = "") -> api.Workload:
        def template(grace: int | None) -> dict[str, Any]:
            annotations = {CHECKPOINT_SECONDS: checkpoint} if checkpoint else {}
            spec = {} if grace is None else {"terminationGracePeriodSeconds": grace}
            return {"metadata": {"annotations": annotations}, "spec": spec}

        pod_sets = tuple(
            api.PodSet(name=f"p{i}", template=template(grace)) for i, grace in enumerate(graces)
        )
        return api.Workload(spec=api.WorkloadSpec(pod_sets=pod_sets))

    def test_the_longest_grace_counts(self) -> None:
        assert find_stop_time(self.workload(None)) == timedelta(seconds=30)
        assert find_stop_time(self.workload(600, 5)) == timedelta(seconds=600)

    @pytest.mark.parametrize(
        ("grace", "seconds", "is_cut_off"),
        [(600, "300", False), (300, "300", True), (None, "60", True), (0, "", False)],
    )
    def test_a_checkpoint_must_fit_into_it(
        self, grace: int | None, seconds: str, is_cut_off: bool
    ) -> None:
        assert bool(find_cut_off(self.workload(grace, checkpoint=seconds), None)) is is_cut_off
        told = find_cut_off(self.workload(grace, checkpoint=seconds), None, notice=600)
        assert told == "", "it is told for long enough"
        job = {"metadata": {"annotations": {CHECKPOINT_SECONDS: seconds}}}
        assert bool(find_cut_off(self.workload(grace), job)) is is_cut_off
