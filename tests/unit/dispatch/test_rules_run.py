"""Rules for what runs or is about to: sweeps, follow, choose, forget, nominate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import Priority
from multiqueue.dispatch.decide.decide import RULES
from multiqueue.dispatch.decide.plan import (
    ConfirmCopyGone,
    ConfirmJobGone,
    CreateWorkload,
    DeactivateCopy,
    Explain,
    FinishLocal,
    Nominate,
    Removal,
    SetCheck,
    SyncJob,
    Trouble,
    UpdatePriority,
)
from multiqueue.dispatch.decide.view import Check, GroupView, LocalWorkload
from multiqueue.plugins import Nomination
from tests.unit.dispatch.builders import (
    CONFIG,
    EPOCH,
    T0,
    TIMEOUT,
    make_admitted,
    make_blind,
    make_cluster,
    make_copy,
    make_finish,
    make_local,
    make_lost,
    make_nomination,
    make_plan,
    make_ready,
    make_remote_job,
    make_running,
    minutes,
)


def ready_on(cluster: str) -> SetCheck:
    message = f'The workload was admitted on "{cluster}"'
    return SetCheck(state=CheckState.READY, message=message, cluster=cluster)


def retried(plan) -> SetCheck:
    """The step that sends the Workload round again."""
    (step,) = [s for s in plan.steps if isinstance(s, SetCheck)]
    assert step.state is CheckState.RETRY
    return step


class TestSweep:
    def test_a_copy_of_an_earlier_reservation_never_counts(self):
        """G-1: a returning worker is fenced before anything it did can count."""
        old = make_cluster("a", workload=make_admitted(epoch="e1"), job=make_remote_job(epoch="e1"))
        plan = make_plan(make_local(nominated=("a",)), old)
        assert plan.removals == (Removal(cluster="a", why="it belongs to an earlier reservation"),)
        assert plan.rule == "nominate"

    @pytest.mark.parametrize("mark", ["", EPOCH], ids=["unmarked", "marked"])
    def test_a_copy_of_this_reservation_counts(self, mark):
        cluster = make_cluster("a", workload=make_admitted(epoch=mark))
        assert make_plan(make_local(nominated=("a",)), cluster).rule == "choose"

    def test_a_copy_that_was_made_from_another_spec_goes(self):
        """M-89."""
        cluster = make_cluster("a", workload=make_copy(digest="old"))
        plan = make_plan(make_local(), cluster)
        assert plan.removals == (Removal(cluster="a", why="the workload changed"),)

    def test_a_running_job_is_not_stopped_for_a_digest(self):
        """M-89."""
        cluster = make_cluster("a", workload=make_admitted(digest="old"), job=make_remote_job())
        assert make_plan(make_ready(), cluster).removals == ()

    def test_a_copy_that_is_being_deleted_goes_even_from_the_latched_cluster(self):
        cluster = make_cluster("a", workload=make_admitted(deleting=True), job=make_remote_job())
        plan = make_plan(make_ready(), cluster)
        assert plan.removals[0] == Removal(cluster="a", why="it is being deleted there")
        assert retried(plan)

    def test_a_copy_on_a_cluster_that_cannot_take_it_goes(self):
        """M-134: it must not hold quota there that no job can use."""
        cluster = make_cluster("a", workload=make_admitted(), refusal="the name is taken")
        plan = make_plan(make_local(nominated=("a",)), cluster)
        assert plan.removals == (Removal(cluster="a", why="the name is taken"),)

    def test_a_copy_that_waits_with_other_pods_than_there_is_room_for_is_made_anew(self):
        cluster = make_cluster("a", workload=make_copy(), misfit="there is room for 4 pods")
        plan = make_plan(make_local(nominated=("a",)), cluster)
        assert plan.removals == (Removal(cluster="a", why="there is room for 4 pods"),)

    def test_where_a_job_is_already_it_is_not_swept_away(self):
        plan = make_plan(make_local(nominated=("a",)), make_running("a", refusal="not served"))
        assert (plan.removals, plan.ask) == ((), True)

    def test_a_cluster_that_cannot_be_cleaned_holds_nothing_up(self):
        old = make_cluster("a", workload=make_copy(epoch="e1"))
        plan = make_plan(
            make_local(nominated=("b",)), old, make_cluster("b", workload=make_admitted())
        )
        assert plan.steps == (SyncJob(cluster="b"), ready_on("b"))


class TestFollow:
    def test_the_status_of_the_running_job_comes_back(self):
        plan = make_plan(make_ready(), make_running("a"), make_cluster("b"))
        assert plan.steps == (SyncJob(cluster="a"),)

    def test_strangers_go_however_old_their_admission_is(self):
        """G-1: upstream lets the oldest admission win over the latch (M-92)."""
        stranger = make_cluster(
            "b", workload=make_admitted(at=T0 - minutes(60)), job=make_remote_job()
        )
        plan = make_plan(make_ready("a"), make_running("a"), stranger)
        assert plan.removals == (Removal(cluster="b", why='cluster "a" runs the workload'),)
        assert plan.steps == (SyncJob(cluster="a"),)

    def test_a_cluster_outside_the_configuration_is_followed_all_the_same(self):
        """G-2, G-3."""
        plan = make_plan(make_ready(), make_running("a", configured=False), make_cluster("b"))
        assert (plan.rule, plan.removals) == ("follow", ())

    def test_a_worker_out_of_reach_is_waited_for(self):
        plan = make_plan(make_ready(), make_lost("a"), make_cluster("b"))
        assert (plan.steps, plan.wait) == ((), TIMEOUT - minutes(1))

    def test_a_cluster_that_nothing_is_known_of_is_waited_for(self):
        """M-83."""
        assert make_plan(make_ready("a"), make_cluster("b")).wait == TIMEOUT

    def test_a_worker_that_stays_away_too_long_loses_the_workload(self):
        plan = make_plan(make_ready(), make_lost("a", ago=TIMEOUT))
        assert "has been out of reach for 15m0s" in retried(plan).message

    def test_the_grace_holds_though_another_copy_is_out_of_sync(self):
        """T-154."""
        drifted = make_cluster("b", workload=make_copy(finished=make_finish("OutOfSync")))
        plan = make_plan(make_ready("a"), make_lost("a"), drifted)
        assert [removal.cluster for removal in plan.removals] == ["b"]
        assert plan.wait == TIMEOUT - minutes(1)

    def test_a_worker_side_eviction_sends_it_round_again_with_the_reason(self):
        """M-88, M-170."""
        copy = make_copy(evicted_at=T0, evicted_why="Preempted by x")
        plan = make_plan(make_ready(), make_cluster("a", workload=copy, job=make_remote_job()))
        step = retried(plan)
        assert step.message == 'The workload was evicted on cluster "a": Preempted by x'
        assert not step.warning

    @pytest.mark.parametrize("evicted_at", [T0, None], ids=["evicted", "not admitted any more"])
    def test_a_stopped_copy_is_kept_from_running_again_before_it_is_given_up(self, evicted_at):
        """It queues again over there, while here nothing runs and the quota is about to go."""
        cluster = make_cluster(
            "a", workload=make_copy(evicted_at=evicted_at), job=make_remote_job()
        )
        plan = make_plan(make_ready(), cluster)
        assert plan.steps[0] == DeactivateCopy(cluster="a")
        assert retried(plan)

    def test_one_that_is_deactivated_is_not_deactivated_again(self):
        copy = make_copy(evicted_at=T0, deactivating=True)
        plan = make_plan(make_ready(), make_cluster("a", workload=copy, job=make_remote_job()))
        assert plan.steps == (retried(plan),)

    def test_a_copy_that_lost_its_admission_otherwise_too(self):
        plan = make_plan(
            make_ready(), make_cluster("a", workload=make_copy(), job=make_remote_job())
        )
        assert 'no longer admitted on cluster "a"' in retried(plan).message

    def test_a_copy_that_is_gone_is_looked_for_before_it_is_believed(self):
        plan = make_plan(make_ready(), make_cluster("a"))
        assert plan.steps[0] == ConfirmCopyGone(cluster="a")
        assert retried(plan).warning

    def test_what_a_gone_copy_left_is_removed_only_once_that_is_sure(self):
        plan = make_plan(make_ready(), make_cluster("a", job=make_remote_job()))
        assert plan.removals == ()
        assert plan.steps[:2] == (
            ConfirmCopyGone(cluster="a"),
            Removal(cluster="a", why="its copy is gone"),
        )

    def test_a_job_that_is_gone_likewise(self):
        """G-14."""
        plan = make_plan(make_ready(), make_cluster("a", workload=make_admitted()))
        assert plan.removals == ()
        assert plan.steps[:2] == (
            ConfirmJobGone(cluster="a"),
            Removal(cluster="a", why="its job is gone"),
        )
        assert "The job was deleted" in retried(plan).message

    def test_a_job_that_cannot_be_seen_is_not_taken_for_gone(self):
        cluster = make_blind("a", workload=make_admitted())
        plan = make_plan(make_ready(), cluster)
        assert (plan.steps, plan.removals) == ((), ())

    def test_an_out_of_sync_copy_goes_and_each_time_the_wait_is_longer(self):
        """Upstream #14521: it is deleted first, so nothing wedges (M-87)."""
        drifted = make_cluster("a", workload=make_copy(finished=make_finish("OutOfSync")))
        waits = []
        for retries in (0, 1, 20):
            check = Check(name="c", state=CheckState.READY, retry_count=retries)
            local = LocalWorkload(
                has_quota=True, epoch=EPOCH, cluster_name="a", check=check, job=make_ready().job
            )
            plan = make_plan(local, drifted)
            assert plan.removals == (Removal(cluster="a", why="it finished as OutOfSync"),)
            waits.append(retried(plan).requeue_after.total_seconds())
        assert waits == [10, 20, 600]

    def test_a_copy_whose_job_is_gone_goes_and_does_not_end_the_workload(self):
        """M-87: a worker finishes it as soon as its job is being deleted."""
        orphan = make_copy(finished=make_finish("OwnerNotFound"))
        for job in (None, make_remote_job(deleting=True)):
            plan = make_plan(make_ready(), make_cluster("a", workload=orphan, job=job))
            assert plan.removals == (Removal(cluster="a", why="it finished as OwnerNotFound"),)
            assert retried(plan).message == 'The job was deleted on cluster "a"'

    def test_a_job_that_ended_before_it_was_deleted_there_is_not_sent_again(self):
        """I-5: its worker was away meanwhile, and both news arrive together."""
        orphan, end = make_copy(finished=make_finish("OwnerNotFound")), make_finish("Succeeded")
        job = make_remote_job(deleting=True, finished=end)
        plan = make_plan(make_ready(), make_cluster("a", workload=orphan, job=job))
        assert plan.rule == "finish"
        assert FinishLocal(finish=end) in plan.steps
        assert plan.removals == ()

    @pytest.mark.parametrize("reason", ["OutOfSync", "OwnerNotFound"])
    def test_nor_does_it_if_the_worker_shows_no_jobs(self, reason):
        cluster = make_blind("a", workload=make_copy(finished=make_finish(reason)))
        plan = make_plan(make_ready(), cluster)
        assert (plan.rule, plan.removals) == ("follow", ())

    @pytest.mark.parametrize(
        "cluster",
        [
            make_cluster("a"),
            make_cluster("a", workload=make_admitted()),
            make_cluster("a", workload=make_copy(), job=make_remote_job()),
        ],
        ids=["copy", "job", "admission"],
    )
    def test_what_a_cluster_loses_again_and_again_waits_longer_each_time(self, cluster):
        waits = []
        for retries in (0, 1, 2, 20):
            check = Check(name="c", state=CheckState.READY, retry_count=retries)
            local = replace(make_ready(), check=check)
            waits.append(retried(make_plan(local, cluster)).requeue_after.total_seconds())
        assert waits == [0, 1, 2, 600]

    def test_a_latch_whose_check_is_pending_becomes_ready(self):
        local = make_local(cluster_name="a")
        plan = make_plan(local, make_cluster("a", workload=make_admitted()))
        assert plan.steps == (SyncJob(cluster="a"), ready_on("a"))

    def test_a_latched_copy_that_is_not_admitted_yet_is_waited_for(self):
        plan = make_plan(make_local(cluster_name="a"), make_cluster("a", workload=make_copy()))
        assert (plan.rule, plan.steps) == ("follow", ())

    def test_while_the_check_says_retry_the_core_has_to_act(self):
        local = make_local(check=CheckState.RETRY, cluster_name="a")
        assert make_plan(local, make_running("a")).steps == ()

    def test_a_job_whose_check_was_taken_away_is_followed_to_its_end(self):
        local = make_local(check=None, cluster_name="a")
        assert make_plan(local, make_running("a")).steps == (SyncJob(cluster="a"),)
        assert make_plan(local, make_lost("a", ago=TIMEOUT)).steps == ()
        assert make_plan(local, make_cluster("a")).steps == ()
        assert make_plan(local, make_cluster("a", workload=make_copy())).steps == ()

    def test_a_changed_priority_reaches_the_copy(self):
        """M-89."""
        low, high = (
            Priority(value=v, kind="WorkloadPriorityClass", name=n)
            for v, n in ((1, "low"), (9, "high"))
        )
        cluster = make_cluster("a", workload=make_admitted(priority=low), job=make_remote_job())
        plan = make_plan(make_ready(priority=high), cluster)
        assert plan.steps == (UpdatePriority(cluster="a"), SyncJob(cluster="a"))

    @pytest.mark.parametrize("kind", ["", "PriorityClass", "WorkloadPriorityClass"])
    def test_a_changed_boost_reaches_the_copy_whatever_the_class(self, kind: str):
        """G-20."""
        plain, boosted = (Priority(value=1, kind=kind, boost=boost) for boost in ("", "5"))
        cluster = make_cluster("a", workload=make_admitted(priority=plain), job=make_remote_job())
        plan = make_plan(make_ready(priority=boosted), cluster)
        assert plan.steps == (
            UpdatePriority(cluster="a", with_class=False),
            SyncJob(cluster="a"),
        )

    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [("PriorityClass", "WorkloadPriorityClass"), ("WorkloadPriorityClass", "PriorityClass")],
    )
    def test_priorities_of_pods_are_the_pods_own(self, ours, theirs):
        copy = make_admitted(priority=Priority(value=1, kind=theirs))
        cluster = make_cluster("a", workload=copy, job=make_remote_job())
        plan = make_plan(make_ready(priority=Priority(value=2, kind=ours)), cluster)
        assert plan.steps == (SyncJob(cluster="a"),)


class TestChoose:
    LOCAL = make_local(nominated=("a", "b"))

    def test_the_first_to_admit_wins_and_losers_go_before_its_job_exists(self):
        """M-90, M-92."""
        early, late = make_admitted(at=T0 - minutes(1)), make_admitted(at=T0)
        plan = make_plan(
            self.LOCAL, make_cluster("a", workload=late), make_cluster("b", workload=early)
        )
        why = 'cluster "b" admitted the workload and runs it'
        assert plan.removals == (Removal(cluster="a", why=why),)
        assert plan.steps == (SyncJob(cluster="b"), ready_on("b"))

    def test_of_two_that_admitted_at_once_the_first_by_name_wins(self):
        copies = [make_cluster(name, workload=make_admitted()) for name in ("a", "b")]
        assert make_plan(self.LOCAL, *copies).steps[0] == SyncJob(cluster="a")

    def test_one_that_has_the_job_already_wins(self):
        """It was chosen before the manager was killed."""
        early = make_cluster("a", workload=make_admitted(at=T0 - minutes(5)))
        plan = make_plan(self.LOCAL, early, make_running("b"))
        assert plan.steps == (SyncJob(cluster="b"), ready_on("b"))

    def test_quota_alone_wins_nothing(self):
        """M-90."""
        reserved = make_cluster("a", workload=make_copy(quota_reserved=True))
        plan = make_plan(
            self.LOCAL, reserved, make_cluster("b", workload=make_copy()), ask_due=False
        )
        assert (plan.rule, plan.steps, plan.removals) == ("nominate", (), ())

    def test_a_cluster_that_was_not_nominated_wins_nothing(self):
        plan = make_plan(make_local(), make_cluster("a", workload=make_admitted()), ask_due=False)
        assert plan.rule == "nominate"

    def test_while_another_cluster_has_a_job_none_is_created(self):
        """I-1."""
        rival = make_cluster("b", workload=make_copy(), job=make_remote_job())
        plan = make_plan(self.LOCAL, make_cluster("a", workload=make_admitted()), rival)
        assert [removal.cluster for removal in plan.removals] == ["b"]
        (step,) = plan.steps
        assert isinstance(step, Explain)
        assert '"b" may still run its job' in step.message

    def test_nor_while_one_out_of_reach_may_have_one(self):
        lost = make_lost("b", may_run_unseen=True)
        plan = make_plan(self.LOCAL, make_cluster("a", workload=make_admitted()), lost)
        assert SyncJob(cluster="a") not in plan.steps
        assert plan.wait == TIMEOUT - minutes(1)

    def test_one_that_was_given_up_is_no_rival(self):
        lost = make_lost("b", ago=TIMEOUT, may_run_unseen=True)
        plan = make_plan(self.LOCAL, make_cluster("a", workload=make_admitted()), lost)
        assert plan.steps[0] == SyncJob(cluster="a")

    def test_where_jobs_cannot_be_seen_nothing_is_started(self):
        cluster = make_blind("a", workload=make_admitted())
        assert make_plan(self.LOCAL, cluster, ask_due=False).rule == "nominate"

    def test_a_ready_workload_that_lost_its_latch_finds_its_cluster(self):
        """T-34, G-19."""
        plan = make_plan(make_ready(None), make_running("a"))
        assert plan.steps == (SyncJob(cluster="a"), ready_on("a"))


class TestForget:
    def test_ready_with_nothing_running_goes_round_again(self):
        """T-167, G-19: and an evicted copy does not crash anything."""
        cluster = make_cluster("a", workload=make_copy(evicted_at=T0))
        plan = make_plan(make_ready(None), cluster)
        assert "no cluster was recorded" in retried(plan).message

    def test_a_check_in_retry_waits_for_the_eviction(self):
        """M-94."""
        assert make_plan(make_local(check=CheckState.RETRY), make_cluster("a")).steps == ()


class TestNominate:
    def test_the_dispatcher_is_asked(self):
        plan = make_plan(make_local(), make_cluster("a"))
        assert plan.ask

    def test_its_answer_is_recorded_before_copies_are_made(self):
        """M-104."""
        plan = make_plan(
            make_local(),
            make_cluster("a"),
            make_cluster("b"),
            nomination=make_nomination("b", a="is full", b="fits"),
        )
        message = 'The workload is offered to "b" (fits); a is full'
        assert plan.steps == (
            Nominate(clusters=("b",), message=message),
            CreateWorkload(cluster="b"),
        )

    def test_the_same_clusters_in_another_order_cost_no_write(self):
        check = Check(name="multikueue", message='The workload is offered to "b", "a"')
        plan = make_plan(
            replace(make_local(nominated=("b", "a")), check=check),
            make_cluster("a", workload=make_copy()),
            make_cluster("b", workload=make_copy()),
            nomination=make_nomination("a", "b"),
        )
        assert (plan.steps, plan.removals) == ((), ())

    def test_the_same_clusters_for_other_reasons_are_explained_anew(self):
        check = Check(name="multikueue", message='The workload is offered to "a" (2 free)')
        plan = make_plan(
            replace(make_local(nominated=("a",)), check=check),
            make_cluster("a", workload=make_copy()),
            nomination=make_nomination("a", a="3 free"),
        )
        assert plan.steps == (Explain(message='The workload is offered to "a" (3 free)'),)

    def test_copies_that_a_crash_left_unmade_are_made(self):
        plan = make_plan(make_local(nominated=("a",)), make_cluster("a"), ask_due=False)
        assert plan.steps == (CreateWorkload(cluster="a"),)

    def test_a_cluster_that_is_not_nominated_any_more_loses_its_copy(self):
        """M-104."""
        plan = make_plan(
            make_local(nominated=("a",)),
            make_cluster("a", workload=make_copy()),
            make_cluster("b"),
            nomination=make_nomination("b"),
        )
        assert plan.removals == (
            Removal(cluster="a", why="the workload is no longer offered there"),
        )
        assert CreateWorkload(cluster="b") in plan.steps

    @pytest.mark.parametrize(
        "cluster",
        [
            make_lost("a"),
            make_cluster("a", refusal="the kind is not served"),
            make_cluster("a", configured=False),
            make_cluster("b"),
        ],
        ids=["out of reach", "refused", "not configured", "unknown"],
    )
    def test_a_cluster_that_cannot_be_used_is_not_nominated_whatever_the_answer(self, cluster):
        """M-103."""
        plan = make_plan(make_local(), cluster, nomination=make_nomination("a"))
        message = "No cluster can take the workload now: a cannot be used"
        assert plan.steps == (Explain(message=message, trouble=Trouble.NO_CLUSTER),)

    def test_a_dispatcher_that_names_none_and_says_not_why_is_told(self):
        plan = make_plan(make_local(), make_cluster("a"), nomination=make_nomination())
        message = (
            "No cluster can take the workload now: the dispatcher named none, and did not say why"
        )
        assert plan.steps == (Explain(message=message, trouble=Trouble.NO_CLUSTER),)

    def test_where_no_cluster_can_take_it_the_reasons_are_told(self):
        plan = make_plan(
            make_local(nominated=("a",)),
            make_lost("a"),
            nomination=make_nomination(a="is not connected"),
        )
        message = "No cluster can take the workload now: a is not connected"
        trouble = Trouble.NO_CLUSTER
        assert plan.steps == (Nominate(clusters=(), message=message, trouble=trouble),)

    def test_nothing_is_made_where_something_is_on_its_way_out(self):
        old = make_cluster("a", workload=make_copy(epoch="e1"))
        check = Check(name="multikueue", message='The workload is offered to "a"')
        local = replace(make_local(nominated=("a",)), check=check)
        plan = make_plan(local, old, nomination=make_nomination("a"))
        assert plan.steps == ()
        assert [removal.cluster for removal in plan.removals] == ["a"]

    def test_a_gang_that_nobody_can_hold_is_rejected(self):
        plan = make_plan(
            make_local(), make_cluster("a"), nomination=Nomination(refusal="no worker can hold it")
        )
        want = SetCheck(state=CheckState.REJECTED, message="no worker can hold it", warning=True)
        assert plan.steps == (want,)

    def test_a_dispatcher_that_fails_changes_nothing_but_the_reason(self):
        plan = make_plan(
            make_local(nominated=("a",)),
            make_cluster("a", workload=make_copy()),
            problem="it hangs",
            ask_again_at=T0 + minutes(1),
        )
        explain = Explain(message="it hangs", trouble=Trouble.DISPATCHER)
        assert (plan.steps, plan.removals) == ((explain,), ())
        assert plan.wait == minutes(1)

    def test_a_time_to_ask_again_that_has_passed_is_no_wait(self):
        plan = make_plan(
            make_local(nominated=("a",)),
            make_cluster("a", workload=make_copy(quota_reserved=True)),
            ask_due=False,
            ask_again_at=T0,
        )
        assert plan.wait is None

    def test_where_it_waits_is_not_given_up_before_that_cluster_could_answer_after_a_start(self):
        lost = make_lost("a", first_chance_until=T0 + minutes(1))
        plan = make_plan(make_local(nominated=("a",)), lost, make_cluster("b"))
        assert (plan.ask, plan.steps, plan.wait) == (False, (), minutes(1))

    def test_after_that_the_dispatcher_is_asked(self):
        lost = make_lost("a", first_chance_until=T0)
        assert make_plan(make_local(nominated=("a",)), lost, make_cluster("b")).ask

    def test_a_cluster_that_it_was_not_offered_to_is_not_waited_for(self):
        lost = make_lost("b", first_chance_until=T0 + minutes(1))
        assert make_plan(make_local(), lost, make_cluster("a")).ask

    def test_other_checks_come_first(self):
        """M-100."""
        plan = make_plan(make_local(other_checks_ready=False), make_cluster("a"))
        assert (plan.ask, plan.why) == (False, "other admission checks are not ready")

    def test_a_job_that_is_not_known_yet_is_waited_for(self):
        plan = make_plan(make_local(job=None), make_cluster("a", workload=make_admitted()))
        assert plan.why == "its job is not known yet"


@pytest.mark.parametrize("rule", RULES[3:], ids=lambda rule: rule.__name__)
def test_a_rule_for_known_workloads_has_no_answer_for_others(rule):
    assert rule(GroupView(key="ns/train"), CONFIG, T0) is None
