"""Slices of elastic jobs: what is left to the next one, how it takes over (M-85, M-160 to 164)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.slices import list_earlier
from multiqueue.api.v1beta2 import AdmissionCheckState, Workload
from multiqueue.api.workload_state import finish
from multiqueue.dispatch.decide.cluster_state import RemoteWorkload
from multiqueue.dispatch.decide.plan import (
    ConfirmCopyGone,
    ConfirmJobGone,
    CreateWorkload,
    DeactivateCopy,
    EndEviction,
    Explain,
    FinishJob,
    FinishLocal,
    MirrorStatus,
    Removal,
    ResizeCopy,
    SetCheck,
    Step,
    SyncJob,
    TakeJobOver,
)
from multiqueue.dispatch.decide.slice_chain import Successor, find_successor
from multiqueue.dispatch.execute.worker_writes import Busy, RemoteWriter
from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.kube.errors import Conflict
from tests.builders.workloads import NAMESPACE, admitted, evicted, make_workload, with_status
from tests.unit.dispatch.builders import (
    T0,
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

if TYPE_CHECKING:
    from multiqueue.workers.connections.session import WorkerSession

HEIR = Successor(cluster="a")
EARLIER = make_remote_job(earlier_key="ns/old", earlier_copy=make_admitted(), epoch="e1")


def make_slice(**fields: object):
    """A slice that took over, and waits for the worker that runs the job."""
    return make_local(**{"elastic": True, "earlier": ("ns/old",), "cluster_name": "a", **fields})


def removed(plan) -> list[str]:
    return [each.cluster for each in plan.removals]


class TestHandOver:
    """The earlier slice, finished as WorkloadSliceReplaced or about to be."""

    def test_a_replaced_slice_keeps_its_objects_until_the_larger_one_has_the_job(self) -> None:
        """M-85, T-169: upstream deletes the running job without this (S1)."""
        plan = make_plan(make_ready(finished=True), make_running(), successor=HEIR)
        assert (plan.removals, plan.steps) == ((), ())

    def test_a_slice_that_is_deleted_here_keeps_the_job_of_the_larger_one(self) -> None:
        """A retention policy deletes finished Workloads."""
        assert removed(make_plan(None, make_running(), successor=HEIR)) == []
        assert removed(make_plan(make_ready(deleting=True), make_running(), successor=HEIR)) == []

    def test_its_copy_stays_while_the_larger_one_has_the_job(self) -> None:
        """Kueue looks the first slice up there before it lets pods go that came later."""
        copy = make_cluster(workload=make_copy(finished=make_finish("WorkloadSliceReplaced")))
        assert removed(make_plan(make_ready(finished=True), copy, successor=HEIR)) == []
        assert removed(make_plan(None, copy, successor=HEIR)) == []
        assert removed(make_plan(make_ready(finished=True), copy)) == ["a"]

    def test_what_it_has_elsewhere_goes_at_once(self) -> None:
        other = make_cluster("b", workload=make_copy())
        plan = make_plan(make_ready(finished=True), make_running(), other, successor=HEIR)
        assert removed(plan) == ["b"]

    def test_without_anybody_to_take_over_all_goes(self) -> None:
        """The larger slice was evicted or deleted: the job would run for nobody."""
        assert removed(make_plan(make_ready(finished=True), make_running())) == ["a"]

    def test_a_slice_that_is_replaced_on_the_worker_first_does_not_end(self) -> None:
        """M-164: the worker is faster than our own write; the job must not be told to be over."""
        copy = make_copy(finished=make_finish("WorkloadSliceReplaced"))
        cluster = make_cluster(workload=copy, job=make_remote_job())
        plan = make_plan(make_ready(elastic=True), cluster, successor=HEIR)
        assert (plan.removals, plan.steps) == ((), ())

    def test_a_slice_that_is_replaced_there_for_nobody_here_goes_round_again(self) -> None:
        copy = make_copy(finished=make_finish("WorkloadSliceReplaced"))
        cluster = make_cluster(workload=copy, job=make_remote_job())
        plan = make_plan(make_ready(elastic=True), cluster)
        states = [step.state for step in plan.steps if isinstance(step, SetCheck)]
        assert states == [CheckState.RETRY]


class TestTakeOver:
    """The larger slice, with quota and latch."""

    def test_a_larger_slice_is_copied_to_the_cluster_that_runs_the_job_only(self) -> None:
        """M-160; beside it the job of the earlier slice runs on (M-102)."""
        plan = make_plan(make_slice(), make_cluster(job=EARLIER), make_cluster("b"))
        assert plan.steps == (MirrorStatus(cluster="a"), CreateWorkload(cluster="a"))
        assert not plan.ask

    def test_nothing_is_stopped_while_it_waits_there(self) -> None:
        plan = make_plan(make_slice(), make_cluster(workload=make_copy(), job=EARLIER))
        mirror, step = plan.steps
        assert mirror == MirrorStatus(cluster="a")
        assert isinstance(step, Explain)
        assert "waits there for room to grow" in step.message
        assert removed(plan) == []

    def test_the_job_is_taken_over_once_the_copy_is_admitted(self) -> None:
        """M-161: before the check is Ready, so that no job is made beside it."""
        plan = make_plan(make_slice(), make_cluster(workload=make_admitted(), job=EARLIER))
        assert plan.steps[:2] == (TakeJobOver(cluster="a"), SyncJob(cluster="a"))
        assert isinstance(plan.steps[2], SetCheck)

    @pytest.mark.parametrize(
        ("copy", "stop"),
        [
            (make_copy(), (DeactivateCopy(cluster="a"),)),
            (make_copy(deactivating=True), ()),
            (None, ()),
        ],
        ids=["it waits", "told to stop before", "no copy yet"],
    )
    def test_a_job_that_its_worker_evicted_meanwhile_goes_round_again(
        self, copy: RemoteWorkload | None, stop: tuple[Step, ...]
    ) -> None:
        """Nothing runs there that could grow, and nobody else would tell."""
        evicted = make_admitted(evicted_at=T0, evicted_why="preempted")
        job = make_remote_job(earlier_key="ns/old", earlier_copy=evicted)
        plan = make_plan(make_slice(), make_cluster(workload=copy, job=job))
        *before, retry = plan.steps
        assert tuple(before) == stop
        assert isinstance(retry, SetCheck)
        assert retry.state is CheckState.RETRY
        assert retry.message == 'The workload was evicted on cluster "a": preempted'

    def test_a_job_that_was_evicted_before_its_larger_slice_was_admitted_is_taken_over(
        self,
    ) -> None:
        job = make_remote_job(earlier_key="ns/old", earlier_copy=make_copy(evicted_at=T0))
        plan = make_plan(make_slice(), make_cluster(workload=make_admitted(), job=job))
        assert plan.steps[0] == TakeJobOver(cluster="a")

    @pytest.mark.parametrize("earlier", [None, make_admitted(deleting=True)])
    def test_a_job_whose_copy_is_gone_goes_round_again(
        self, earlier: RemoteWorkload | None
    ) -> None:
        """Its worker stops it, and would not let it go on as the earlier slice."""
        job = make_remote_job(earlier_key="ns/old", earlier_copy=earlier)
        plan = make_plan(make_slice(), make_cluster(workload=make_copy(), job=job))
        confirm, stop, retry = plan.steps
        assert confirm == ConfirmCopyGone(cluster="a", key="ns/old")
        assert stop == DeactivateCopy(cluster="a")
        assert isinstance(retry, SetCheck)
        assert (retry.state, retry.message) == (
            CheckState.RETRY,
            'The workload was deleted on cluster "a" before it could grow',
        )

    @pytest.mark.parametrize("copy", [None, make_copy()])
    def test_a_job_that_is_deleted_while_it_waits_to_grow_goes_round_again(
        self, copy: RemoteWorkload | None
    ) -> None:
        """Whoever runs nothing waits where there is room, not where it ran."""
        plan = make_plan(make_slice(), make_cluster(workload=copy))
        assert plan.steps[0] == ConfirmJobGone(cluster="a")
        assert isinstance(plan.steps[-1], SetCheck)
        assert plan.steps[-1].state is CheckState.RETRY

    def test_a_job_that_was_taken_over_before_a_crash_is_not_again(self) -> None:
        plan = make_plan(
            make_slice(), make_cluster(workload=make_admitted(), job=make_remote_job())
        )
        assert plan.steps[0] == SyncJob(cluster="a")

    def test_no_job_is_made_while_those_of_the_worker_cannot_be_seen(self) -> None:
        """The one that it takes over is there; beside it, its own could not be made for ever."""
        plan = make_plan(make_slice(), make_blind(workload=make_admitted()))
        assert (plan.rule, plan.steps) == ("take_over", ())
        assert plan.why

    def test_a_job_that_ends_while_it_waits_to_grow_ends_it(self) -> None:
        """The slice whose name that has may be deleted here by now."""
        end = make_finish("Failed")
        job = make_remote_job(earlier_key="ns/old", finished=end)
        plan = make_plan(make_slice(), make_cluster(workload=make_copy(), job=job))
        assert plan.steps == (FinishJob(cluster="a", finish=end), FinishLocal(finish=end))
        elsewhere = make_cluster("b", job=job)
        assert make_plan(make_slice(), make_cluster("a"), elsewhere).rule == "take_over"

    def test_a_larger_slice_without_quota_touches_nothing(self) -> None:
        """T-171: a scale-up in progress."""
        local = make_local(has_quota=False, check=None, elastic=True, earlier=("ns/old",))
        plan = make_plan(local, make_cluster())
        assert (plan.removals, plan.steps) == ((), ())

    def test_a_lost_cluster_is_waited_for_like_any_that_runs_something(self) -> None:
        plan = make_plan(make_slice(), make_lost())
        assert plan.wait == minutes(14)
        plan = make_plan(make_slice(), make_lost(ago=minutes(16)))
        assert [s.state for s in plan.steps if isinstance(s, SetCheck)] == [CheckState.RETRY]

    def test_no_quota_goes_back_while_the_job_of_the_earlier_slice_runs(self) -> None:
        """The larger slice is evicted before it took that over."""
        local = make_slice(evicted_at=T0, cluster_name=None, check=CheckState.PENDING)
        plan = make_plan(local, make_cluster(workload=make_copy(), job=EARLIER))
        assert not any(isinstance(step, EndEviction) for step in plan.steps)
        gone = make_plan(local, make_cluster())
        assert any(isinstance(step, EndEviction) for step in gone.steps)


class TestFollow:
    def test_a_slice_that_shrank_is_written_to_its_copy_after_its_job(self) -> None:
        """M-163: nothing is deleted for the difference, and the quota goes last."""
        local = make_ready(elastic=True, digest="smaller")
        plan = make_plan(local, make_running())
        assert plan.steps == (SyncJob(cluster="a"), ResizeCopy(cluster="a"))
        assert removed(plan) == []

    def test_a_job_that_was_not_taken_over_in_time_is_so_later(self) -> None:
        local = make_ready(elastic=True, earlier=("ns/old",))
        plan = make_plan(local, make_cluster(workload=make_admitted(), job=EARLIER))
        assert plan.steps == (TakeJobOver(cluster="a"), SyncJob(cluster="a"))

    def test_another_job_is_not_resized(self) -> None:
        plan = make_plan(make_ready(digest="other"), make_running())
        assert plan.steps == (SyncJob(cluster="a"),)

    def test_a_copy_that_is_offered_with_another_size_is_made_anew(self) -> None:
        """T-172: nothing runs of it yet."""
        local = make_local(elastic=True, digest="smaller", nominated=("a",))
        assert removed(make_plan(local, make_cluster(workload=make_copy()))) == ["a"]

    def test_an_elastic_workload_without_quota_is_cleaned_up(self) -> None:
        """T-170: it is no scale-up."""
        local = make_local(has_quota=False, elastic=True)
        assert make_plan(local, make_running()).removals == (
            Removal(cluster="a", why="the workload holds no quota"),
        )


# ---------------------------------------------------------------- the chain


def slice_(name: str, *, replaces: str = "", **what: object) -> Workload:
    key = f"{NAMESPACE}/{replaces}"
    annotations = {names.WORKLOAD_SLICE_REPLACEMENT_FOR: key} if replaces else {}
    return make_workload(name, annotations=annotations, **what)


def running(workload: Workload, cluster: str = "a", state: str = "Ready") -> Workload:
    workload = admitted(workload)
    checks = (AdmissionCheckState(name="multikueue", state=state),)
    status = replace_status(workload, cluster_name=cluster, admission_checks=checks)
    return with_status(workload, status)


def replace_status(workload: Workload, **fields: object):
    return msgspec.structs.replace(workload.status, **fields)


def done(workload: Workload) -> Workload:
    reason = Reason.WORKLOAD_SLICE_REPLACED
    return with_status(workload, finish(workload.status, reason, "over", now=T0))


def heir_of(name: str, *workloads: Workload) -> Successor | None:
    def find(key: str) -> list[Workload]:
        annotation = names.WORKLOAD_SLICE_REPLACEMENT_FOR
        return [w for w in workloads if w.metadata.annotations.get(annotation) == key]

    return find_successor(f"{NAMESPACE}/{name}", find)


def test_the_heir_is_the_last_of_the_chain_that_holds_quota() -> None:
    two, three = done(slice_("two", replaces="one")), running(slice_("three", replaces="two"))
    assert heir_of("one", two, three) == HEIR
    assert heir_of("one", running(slice_("two", replaces="one"), state="Pending")) == HEIR


@pytest.mark.parametrize(
    "successor",
    [
        slice_("two", replaces="one"),
        evicted(running(slice_("two", replaces="one"))),
        running(slice_("two", replaces="one", deleted=True)),
    ],
    ids=["waits", "evicted", "deleted"],
)
def test_who_may_not_keep_what_runs_is_no_heir(successor: Workload) -> None:
    assert heir_of("one", successor) is None


def test_the_chain_is_followed_back_and_ends() -> None:
    two = slice_("two", replaces="one")
    three = slice_("three", replaces="two")
    known = {w.metadata.key: w for w in (two, slice_("one", replaces="three"))}
    found = list(list_earlier(three, known.get))
    assert found == [f"{NAMESPACE}/two", f"{NAMESPACE}/one"]


# ---------------------------------------------------------------- what fails on the way


class Refusing:
    """A worker whose API server finds that the job changed."""

    def __init__(self) -> None:
        self.client, self.owner = self, None

    async def patch(self, *_: object, **__: object) -> None:
        raise Conflict(409, reason="Conflict")


async def test_a_patch_that_fails_is_tried_again() -> None:
    """T-422: nothing is believed to have been taken over."""
    job = {"metadata": {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "1"}}
    writer = RemoteWriter(cast("WorkerSession", Refusing()))
    got = await writer.patch_job(BatchJobAdapter(), job, {"spec": {"parallelism": 3}})
    assert isinstance(got, Busy)
