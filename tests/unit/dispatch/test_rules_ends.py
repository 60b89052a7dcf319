"""Rules for what ends: ignored, deleted, cleaned up, finished, evicted, rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.plan import (
    DeactivateCopy,
    EndEviction,
    FinishJob,
    FinishLocal,
    MirrorStatus,
    Removal,
    SetCheck,
    StopLocalJob,
)
from multiqueue.dispatch.decide.view import Check, LocalJob
from tests.unit.dispatch.builders import (
    T0,
    TIMEOUT,
    make_admitted,
    make_blind,
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

ACTIVE = LocalJob(active=True)


def evicted(**fields):
    return make_local(evicted_at=T0 - minutes(1), was_evicted=True, **fields)


@pytest.mark.parametrize(("reason", "rule"), [("OwnerNotFound", "evict"), ("Succeeded", "finish")])
def test_a_copy_without_a_job_is_no_end_of_what_is_being_evicted(reason: str, rule: str):
    """Its job was removed first; the worker may finish the copy before it is removed, too."""
    copy = make_copy(finished=make_finish(reason), deactivating=True)
    plan = make_plan(evicted(), make_cluster("a", workload=copy))
    assert plan.rule == rule
    if rule == "evict":
        assert [removal.cluster for removal in plan.removals] == ["a"]


class TestIgnore:
    def test_a_workload_without_check_and_copies_is_left_alone(self):
        """M-80."""
        plan = make_plan(make_local(check=None), make_cluster("a"))
        assert (plan.rule, plan.steps, plan.removals) == ("ignore", (), ())

    def test_a_rejected_workload_is_left_alone(self):
        """M-80."""
        plan = make_plan(make_local(check=CheckState.REJECTED), make_cluster("a"))
        assert (plan.rule, plan.steps) == ("ignore", ())

    @pytest.mark.parametrize(
        ("state", "rule"),
        [({"deleting": True}, "delete"), ({"finished": True}, "clean_up")],
        ids=["deleted", "finished"],
    )
    def test_one_that_was_rejected_and_is_over_leaves_nothing_behind(self, state, rule):
        local = make_local(check=CheckState.REJECTED, **state)
        plan = make_plan(local, make_cluster("a", workload=make_copy()))
        assert plan.rule == rule
        assert [removal.cluster for removal in plan.removals] == ["a"]

    def test_copies_that_no_check_claims_any_more_are_removed(self):
        plan = make_plan(make_local(check=None), make_cluster("a", workload=make_copy()))
        want = Removal(cluster="a", why="no MultiKueue check applies any more")
        assert plan.removals == (want,)
        assert plan.steps == ()

    def test_an_eviction_that_began_with_a_check_is_seen_through_without_one(self):
        local = evicted(check=None, job=ACTIVE)
        plan = make_plan(local, make_cluster("a"), last_cluster="a")
        assert plan.steps == (StopLocalJob(why="the remote job is gone"),)

    def test_nothing_of_a_workload_that_nobody_knows_is_nothing_to_do(self):
        assert make_plan(None, make_cluster("a")).rule == "ignore"


class TestDelete:
    def test_what_is_left_of_a_deleted_workload_goes_everywhere(self):
        """M-84."""
        plan = make_plan(None, make_running("a"), make_cluster("b"), make_lost("c"))
        assert plan.removals == (Removal(cluster="a", why="the workload was deleted"),)

    def test_a_workload_on_its_way_out_loses_its_copies(self):
        plan = make_plan(make_ready(deleting=True), make_running("a"))
        assert plan.rule == "delete"
        assert plan.removals == (Removal(cluster="a", why="the workload was deleted"),)

    def test_its_job_is_said_to_be_stopped_once_nothing_is_left(self):
        plan = make_plan(make_ready(deleting=True, job=ACTIVE), make_cluster("a"))
        assert plan.steps == (StopLocalJob(why="the remote job is gone"),)

    def test_its_job_may_still_run_where_nobody_can_look(self):
        local = make_ready(deleting=True, job=ACTIVE)
        plan = make_plan(local, make_lost("a", may_run_unseen=True))
        assert plan.steps == ()
        assert plan.wait == TIMEOUT - minutes(1)


class TestCleanUp:
    def test_a_finished_workload_leaves_nothing_behind(self):
        """M-86."""
        plan = make_plan(make_ready(finished=True), make_running("a"), make_lost("b"))
        assert plan.removals == (Removal(cluster="a", why="the workload finished"),)

    def test_a_workload_without_quota_has_no_copies(self):
        """M-86."""
        plan = make_plan(make_local(has_quota=False), make_cluster("a", workload=make_copy()))
        assert plan.removals == (Removal(cluster="a", why="the workload holds no quota"),)


class TestFinish:
    def test_the_end_of_the_copy_is_the_end_of_the_workload(self):
        """M-87."""
        end = make_finish()
        cluster = make_cluster("a", workload=make_admitted(finished=end), job=make_remote_job())
        plan = make_plan(make_ready(), cluster)
        assert plan.steps == (FinishJob(cluster="a", finish=end), FinishLocal(finish=end))

    def test_the_end_is_not_thrown_away_for_an_eviction(self):
        end = make_finish()
        cluster = make_cluster("a", workload=make_copy(finished=end), job=make_remote_job())
        assert make_plan(evicted(), cluster).rule == "finish"

    def test_without_latch_the_first_end_counts(self):
        late, early = make_finish(at=T0), make_finish("Failed", at=T0 - minutes(1))
        plan = make_plan(
            make_local(),
            make_cluster("a", workload=make_copy(finished=late)),
            make_cluster("b", workload=make_copy(finished=early)),
        )
        assert plan.steps[0] == FinishJob(cluster="b", finish=early)

    def test_with_a_latch_the_end_of_a_stranger_does_not_count(self):
        stranger = make_cluster("b", workload=make_copy(finished=make_finish()))
        plan = make_plan(make_ready("a"), make_running("a"), stranger)
        assert plan.rule == "follow"
        assert [removal.cluster for removal in plan.removals] == ["b"]

    def test_where_the_copy_was_deleted_the_ended_job_tells(self):
        """G-14."""
        end = make_finish()
        plan = make_plan(make_ready(), make_cluster("a", job=make_remote_job(finished=end)))
        assert plan.steps == (FinishJob(cluster="a", finish=end), FinishLocal(finish=end))

    def test_a_job_without_copy_that_no_latch_points_to_tells_nothing(self):
        cluster = make_cluster("a", job=make_remote_job(finished=make_finish()))
        plan = make_plan(make_local(), cluster)
        assert plan.removals == (Removal(cluster="a", why="its Workload is gone"),)
        assert plan.rule == "nominate"


class TestEvict:
    def test_the_worker_is_asked_to_stop_the_job(self):
        """M-171."""
        plan = make_plan(evicted(job=ACTIVE), make_running("a"))
        assert plan.steps == (DeactivateCopy(cluster="a"),)

    def test_it_is_asked_only_once(self):
        cluster = make_cluster(
            "a", workload=make_admitted(deactivating=True), job=make_remote_job()
        )
        plan = make_plan(evicted(job=ACTIVE), cluster)
        assert (plan.rule, plan.steps, plan.removals) == ("evict", (), ())
        assert plan.wait == TIMEOUT

    def test_one_that_was_evicted_there_itself_is_kept_from_running_again(self):
        cluster = make_cluster("a", workload=make_copy(evicted_at=T0), job=make_remote_job())
        plan = make_plan(evicted(job=ACTIVE), cluster)
        assert plan.steps == (DeactivateCopy(cluster="a"),)

    def test_once_evicted_there_its_status_comes_back(self):
        """M-88."""
        copy = make_copy(evicted_at=T0, deactivating=True)
        cluster = make_cluster("a", workload=copy, job=make_remote_job())
        plan = make_plan(evicted(job=ACTIVE), cluster)
        removal = Removal(cluster="a", why="the workload was evicted")
        assert plan.steps == (MirrorStatus(cluster="a"), removal)

    def test_the_quota_goes_when_nothing_is_left_of_it(self):
        """M-171."""
        plan = make_plan(evicted(), make_cluster("a"))
        assert plan.steps == (EndEviction(why="the remote job is gone"),)

    @pytest.mark.parametrize(
        ("cluster", "wait"),
        [
            pytest.param(make_cluster("a", job=make_remote_job(deleting=True)), None, id="there"),
            pytest.param(make_cluster("a", creating=True), None, id="about to be"),
            pytest.param(make_blind("a"), TIMEOUT - minutes(1), id="not shown"),
            pytest.param(
                make_lost("a", may_run_unseen=True), TIMEOUT - minutes(1), id="out of reach"
            ),
        ],
    )
    def test_whatever_the_status_here_says_it_is_held_while_a_job_may_be_there(self, cluster, wait):
        """What was last brought back may be behind what runs (I-6)."""
        plan = make_plan(evicted(), cluster)
        assert EndEviction not in map(type, plan.steps)
        assert StopLocalJob not in map(type, plan.steps)
        assert plan.wait == wait

    def test_a_worker_that_shows_no_jobs_for_too_long_holds_nothing(self):
        plan = make_plan(evicted(), make_blind("a", ago=TIMEOUT))
        assert plan.steps == (EndEviction(why="the workers that could run it were given up"),)

    def test_a_copy_whose_job_cannot_be_seen_stays_for_who_comes_after_us(self):
        stopped = make_copy(deactivating=True, had_job=True)
        plan = make_plan(evicted(), make_blind("a", workload=stopped))
        assert (plan.steps, plan.removals) == ((), ())

    def test_a_job_on_a_worker_that_answers_holds_the_quota_until_it_is_gone(self):
        stuck = make_cluster("a", job=make_remote_job(deleting=True), stopping_since=T0)
        plan = make_plan(evicted(), stuck, now=T0 + 2 * TIMEOUT)
        assert (plan.steps, plan.why) == ((), '"a" may still run it')

    def test_a_copy_that_holds_quota_where_jobs_are_not_shown_tells_that_its_job_is_there(self):
        blind = make_blind("a", ago=2 * TIMEOUT, workload=make_admitted(deactivating=True))
        plan = make_plan(evicted(), blind)
        assert (plan.steps, plan.why) == ((), '"a" may still run it')

    def test_an_old_eviction_is_no_reason_to_hurry_a_worker_that_was_just_told(self):
        cluster = make_cluster(
            "a",
            workload=make_admitted(deactivating=True),
            job=make_remote_job(),
            stopping_since=T0 + 3 * TIMEOUT,
        )
        plan = make_plan(evicted(job=ACTIVE), cluster, now=T0 + 3 * TIMEOUT + minutes(1))
        assert (plan.removals, plan.wait) == ((), TIMEOUT - minutes(1))

    def test_the_job_is_stopped_here_first(self):
        plan = make_plan(evicted(job=LocalJob(suspended=False)), make_cluster("a"))
        assert (plan.rule, plan.steps) == ("evict", ())

    def test_one_that_runs_here_is_the_core_s_to_end(self):
        plan = make_plan(evicted(job=LocalJob(refusal="it runs here")), make_cluster("a"))
        assert plan.steps == ()

    def test_one_that_lost_its_check_is_still_ours_to_end(self):
        plan = make_plan(evicted(check=None), make_cluster("a"))
        assert plan.steps == (EndEviction(why="the remote job is gone"),)

    def test_a_worker_that_does_not_stop_it_in_time_loses_it(self):
        cluster = make_cluster(
            "a",
            workload=make_admitted(deactivating=True),
            job=make_remote_job(),
            stopping_since=T0 - minutes(1),
        )
        plan = make_plan(evicted(job=ACTIVE), cluster, now=T0 + TIMEOUT)
        assert plan.removals == (Removal(cluster="a", why="the workload was evicted"),)
        assert plan.wait is None

    def test_copies_without_job_are_withdrawn(self):
        plan = make_plan(evicted(), make_cluster("a", workload=make_copy()))
        assert plan.removals == (Removal(cluster="a", why="the workload was evicted"),)

    def test_a_job_without_copy_is_deleted(self):
        plan = make_plan(evicted(job=ACTIVE), make_cluster("a", job=make_remote_job()))
        assert plan.removals == (Removal(cluster="a", why="the workload was evicted"),)

    def test_an_admitted_copy_whose_job_cannot_be_seen_is_asked_to_stop(self):
        cluster = make_blind("a", workload=make_admitted())
        assert make_plan(evicted(), cluster).steps == (DeactivateCopy(cluster="a"),)

    def test_nothing_is_nominated_while_the_quota_is_held(self):
        """M-175: upstream does, and stops a job on another cluster for it (M-94)."""
        plan = make_plan(evicted(job=ACTIVE), make_lost("a", may_run_unseen=True))
        assert (plan.rule, plan.ask, plan.steps) == ("evict", False, ())
        assert plan.wait == TIMEOUT - minutes(1)

    def test_a_worker_that_was_given_up_holds_no_quota(self):
        """G-22: the last status said active, and nobody will ever say otherwise."""
        lost = make_lost("a", ago=TIMEOUT, may_run_unseen=True)
        plan = make_plan(evicted(job=ACTIVE), lost)
        assert plan.steps == (StopLocalJob(why="the workers that could run it were given up"),)

    def test_what_is_being_removed_is_waited_for(self):
        old = make_cluster("a", workload=make_copy(epoch="e1"), job=make_remote_job(epoch="e1"))
        plan = make_plan(evicted(job=ACTIVE), old)
        assert plan.removals == (Removal(cluster="a", why="it belongs to an earlier reservation"),)
        assert plan.steps == ()


class TestReject:
    REFUSED = LocalJob(refusal="it runs itself")

    def test_a_job_that_cannot_be_dispatched_is_rejected(self):
        """M-81, M-82."""
        plan = make_plan(make_local(job=self.REFUSED), make_cluster("a"))
        want = SetCheck(state=CheckState.REJECTED, message="it runs itself", warning=True)
        assert plan.steps == (want,)

    def test_quota_that_no_cluster_can_use_is_given_back(self):
        plan = make_plan(make_local(), make_cluster("a"), hopeless="no worker can hold it")
        step = SetCheck(
            state=CheckState.RETRY,
            message="The quota is given back: no worker can hold it",
            warning=True,
            requeue_after=minutes(0),
        )
        assert (plan.rule, plan.steps) == ("reject", (step,))

    def test_it_is_given_back_later_each_time(self):
        waits = []
        for retries in (1, 2, 3):
            local = replace(make_local(), check=Check(name="mk", retry_count=retries))
            [step] = make_plan(local, make_cluster("a"), hopeless="too large").steps
            waits.append(step.requeue_after.total_seconds())
        assert waits == [1, 2, 4]

    def test_a_worker_that_gave_quota_knows_better(self):
        cluster = make_cluster("a", workload=make_copy(quota_reserved=True))
        plan = make_plan(make_local(nominated=("a",)), cluster, hopeless="too large")
        assert plan.rule == "nominate"

    def test_what_runs_already_is_not_rejected(self):
        assert make_plan(make_ready(job=self.REFUSED), make_running("a")).rule == "follow"
