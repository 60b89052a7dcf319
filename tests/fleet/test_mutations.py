"""The checkers can fail: a rule that keeps a promise is broken, and some run shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from multiqueue_dispatchers import incremental
from multiqueue_dispatchers.external import External

from multiqueue.api import ran_on
from multiqueue.api.cluster_orders import DrainPace, read_orders
from multiqueue.capacity import filters
from multiqueue.dispatch.decide import decide as deciding
from multiqueue.dispatch.decide.cluster_state import ClusterState, Finish, Presence
from multiqueue.dispatch.decide.copy import clone_workload
from multiqueue.dispatch.decide.plan import Nominate
from multiqueue.dispatch.decide.rules import choose_winner, delete, gates, lost_worker
from multiqueue.dispatch.decide.rules import end_eviction as evicting
from multiqueue.dispatch.execute import execute, remote_steps
from multiqueue.dispatch.observe.fitting import Fitting
from multiqueue.drain import controller
from multiqueue.drain.relocation import Relocation
from multiqueue.jobs.framework import pod_set_info
from multiqueue.plugins import Nomination
from tests.fleet.plan import Act, Plan
from tests.fleet.plan_extras import make_seed_plan
from tests.fleet.plans import LONG, make_plan
from tests.fleet.run import run_plan
from tests.fleet.weather import Down

pytestmark = pytest.mark.fleet
Patch = pytest.MonkeyPatch


def give_up_at_once(patch: Patch) -> None:
    """No grace for whoever is out of reach."""
    for module in (choose_winner, evicting, lost_worker, delete):
        patch.setattr(module, "grace_left", lambda *_: timedelta())


def finish_first(patch: Patch) -> None:
    """Finish a Workload without bringing the last status of its job back."""

    def finish(view, config, now):
        plan = deciding.finish(view, config, now)
        return replace(plan, steps=plan.steps[1:]) if plan is not None else None

    replace_rule(patch, "finish", finish)


def take_any_end(patch: Patch) -> None:
    """Take a copy that its worker finished because its job is gone for the end of the job."""
    patch.setattr(Finish, "is_without_job", property(lambda _: False))


def ignore_rivals(patch: Patch) -> None:
    """Choose a winner though another cluster may run the job."""
    patch.setattr(choose_winner, "_blocks", lambda *_: False)


def sweep_nothing(patch: Patch) -> None:
    """Leave what a returning worker still has."""
    patch.setattr(deciding, "sweep", lambda _: ())


def stop_here_only(patch: Patch) -> None:
    """Say of what is evicted here that it stopped, whatever it does there."""

    def evict(view, config, now):
        if view.local is None or view.local.evicted_at is None:
            return None
        return evicting._end(view.local, given_up=True)

    replace_rule(patch, "evict", evict)


def believe_the_status(patch: Patch) -> None:
    """Give the quota back once the status of the job here says that nothing runs."""

    def evict(view, config, now):
        local = view.local
        if local is None or local.evicted_at is None or local.job is None or local.job.active:
            return evicting.evict(view, config, now)
        return evicting._end(local, given_up=False)

    replace_rule(patch, "evict", evict)


def take_unknown_for_absent(patch: Patch) -> None:
    """Believe that there is no job where none is shown."""
    presence = ClusterState.job_presence.fget

    def believe(cluster):
        found = presence(cluster)
        return Presence.ABSENT if found is Presence.UNKNOWN else found

    patch.setattr(ClusterState, "job_presence", property(believe))


def leave_no_mark(patch: Patch) -> None:
    """Create copies that nobody can tell from those of others."""

    def clone(*arguments, **keywords):
        body = clone_workload(*arguments, **keywords)
        return {**body, "metadata": {**body["metadata"], "labels": {}}}

    patch.setattr(remote_steps, "clone_workload", clone)


def record_no_nomination(patch: Patch) -> None:
    """Offer a Workload before it is written where."""

    def nominate(view, config, now):
        plan = deciding.nominate(view, config, now)
        steps = () if plan is None else plan.steps
        kept = tuple(step for step in steps if not isinstance(step, Nominate))
        return replace(plan, steps=kept) if plan is not None else None

    replace_rule(patch, "nominate", nominate)


def know_better(patch: Patch) -> None:
    """Nominate, though somebody else does."""

    def nominate(_, view):
        return Nomination(clusters=tuple(cluster.name for cluster in view.clusters))

    patch.setattr(External, "nominate", nominate)


def take_large_steps(patch: Patch) -> None:
    """Offer it to all in the first round."""
    patch.setattr(incremental, "read_count", lambda *_: 99)


def take_any_order(patch: Patch) -> None:
    """Begin with the last."""
    patch.setattr(incremental, "_arrange", lambda clusters, _: list(reversed(clusters)))


def hurry(patch: Patch) -> None:
    """Begin a round each second."""
    patch.setattr(incremental, "read_duration", lambda *_: timedelta(seconds=1))


def open_all_gates(patch: Patch) -> None:
    """Let each preempt that would."""
    patch.setattr(gates, "_list_openings", lambda _: ())


def ignore_orders(patch: Patch) -> None:
    """Send jobs to workers that are drained."""
    patch.setattr(filters, "FILTERS", ())


def rush(patch: Patch) -> None:
    """Have all leave at once, in whatever numbers they may."""

    def read(annotations, default):
        orders = read_orders(annotations, default)
        if orders.drain is None:
            return orders
        pace = DrainPace(every=timedelta(milliseconds=1), at_once=100)
        return replace(orders, drain=replace(orders.drain, pace=pace))

    patch.setattr(controller, "read_orders", read)


def drive_out(patch: Patch) -> None:
    """Have jobs leave that no other worker can hold."""
    judge = Relocation.judge
    patch.setattr(
        Relocation, "judge", lambda *args, **named: replace(judge(*args, **named), why="")
    )


def send_all_pods(patch: Patch) -> None:
    """Create jobs as large as they are here."""
    patch.setattr(Fitting, "find_pods", lambda *_: {})


def charge_all_pods(patch: Patch) -> None:
    """Leave the quota as it was reserved."""
    patch.setattr(execute, "account", lambda *_: execute.NOTHING)


def give_away_early(patch: Patch) -> None:
    """Let go of quota as soon as a worker admitted it, wherever it ends up."""
    patch.setattr(ran_on, "is_admitted", lambda _: True)


def show_all_pods(patch: Patch) -> None:
    """Start the job on the manager with as many pods as were reserved."""
    patch.setattr(pod_set_info, "find_ran_on", lambda _: ran_on.AS_RESERVED)


def replace_rule(patch: Patch, name: str, by: Callable) -> None:
    rules = tuple(by if rule.__name__ == name else rule for rule in deciding.RULES)
    patch.setattr(deciding, "RULES", rules)


SEEDS = [make_seed_plan(seed) for seed in range(1, 16)]
CUT_AND_KILLED = [
    make_plan(
        Act(0.99, "kill_manager_at_write", (0, number, after, 1.0, worker, 200.0, Down.HANGS)),
        lost_timeout=300.0,
    )
    for worker in "ab"
    for number in range(9, 14)
    for after in (False, True)
]
"""The worker that has the job is lost with the manager that was about to say so."""
BACK_LATE = [make_plan(Act(10.0, "outage", (name, 100.0, Down.HANGS))) for name in "ab"]
"""A worker comes back after what it runs was moved."""
DEACTIVATED = [make_plan(Act(10.0, "deactivate", ("job1", 30.0)))]
DELETED_THERE = [
    make_plan(Act(10.0, "delete_remote_job", ("a", "job1", True)), workers={"a": 8}),
]
"""The worker's Kueue finishes the copy while the pods of the job are still stopping."""
KILLED_AS_IT_REMOVES = [
    make_plan(
        Act(10.0, "deactivate", ("job1", 30.0)),
        Act(10.0, "kill_manager_at_write", (0, number, True, 0.0, "a", 0.0, Down.HANGS)),
        workers={"a": 8},
        jobs=(replace(LONG, stop=0.5),),
    )
    for number in range(14, 19)
]
"""The manager dies between the deletion of the job and that of its copy."""


BLIND = [
    make_plan(
        Act(10.0, "unserve_jobs", ("a", 30.0)),
        Act(11.0, "kill_manager", (0, 1.0)),
        Act(15.0, "deactivate", ("job1", 40.0)),
        workers={"a": 8},
    )
]
"""A manager that begins while a worker shows no jobs."""
LOST_AS_IT_BEGINS = [
    make_plan(
        Act(1.8, "outage", ("a", 40.0, Down.HANGS)),
        Act(5.0, "deactivate", ("job1", 20.0)),
        workers={"a": 8},
    )
]
ENDED_UNSEEN = [
    make_plan(
        Act(10.0, "outage", ("a", 30.0, Down.HANGS)),
        workers={"a": 8},
        jobs=(replace(LONG, seconds=20.0),),
    )
]
FULL = dict.fromkeys("abcd", 8)
FILLED = (
    *(replace(LONG, name=f"job{n}", at=float(n), gpus=8, seconds=400.0) for n in range(1, 5)),
    replace(LONG, name="job5", at=140.0, gpus=8, seconds=5.0),
)
ROUNDS = [
    replace(
        make_plan(workers=FULL, jobs=FILLED),
        dispatcher="incremental",
        step=1,
        round_seconds=30.0,
        order=("c", "a", "d", "b"),
    )
]
"""One waits where all workers are full."""
FOLLOWED = [replace(make_plan(), dispatcher="external")]
RIVALS = [
    replace(
        make_plan(
            workers={"a": 8, "b": 8},
            jobs=(
                replace(LONG, name="job1", gpus=8),
                replace(LONG, name="job2", at=3.0, gpus=8),
                replace(LONG, name="job3", at=20.0, gpus=8, seconds=5.0, priority="high"),
            ),
        ),
        played=frozenset(),
        gated=True,
    )
]
"""One that could preempt on each of two workers."""
CROWD = tuple(replace(LONG, name=f"job{n}", at=float(n), stop=10.0) for n in range(1, 7))
DRAINED = [
    make_plan(Act(30.0, "drain", (name, "rate=120/min,at-once=1", 60.0)), jobs=CROWD)
    for name in "ab"
]
DRAINED_ALL_DAY = [
    make_plan(Act(10.0, "drain", ("a", "true", 200.0)), jobs=(replace(LONG, at=60.0),))
]
NOWHERE_TO_GO = [
    make_plan(
        Act(10.0, "drain", ("a", "true", 60.0)),
        workers={"a": 8, "b": 2},
        jobs=(replace(LONG, gpus=8),),
    )
]


HALVED = [
    replace(make_plan(jobs=(replace(LONG, gpus=8, halves=True),)), fast=frozenset("ab")),
]


@pytest.mark.parametrize(
    ("break_rule", "plans", "checker"),
    [
        (give_up_at_once, SEEDS, "GraceIsKept"),
        (finish_first, ENDED_UNSEEN, "FinishedIsFinal"),
        (take_any_end, DELETED_THERE, "FinishedIsFinal"),
        (take_any_end, KILLED_AS_IT_REMOVES, "FinishedIsFinal"),
        (ignore_rivals, CUT_AND_KILLED, "AtMostOneRuns"),
        (sweep_nothing, BACK_LATE, "ReturnedIsFenced"),
        (stop_here_only, DEACTIVATED, "QuotaWhileRunning"),
        (believe_the_status, LOST_AS_IT_BEGINS, "QuotaWhileRunning"),
        (take_unknown_for_absent, BLIND, "QuotaWhileRunning"),
        (leave_no_mark, DEACTIVATED, "NothingIsLost"),
        (record_no_nomination, DEACTIVATED, "CopiesAreNominated"),
        (know_better, FOLLOWED, "CopiesAreNominated"),
        (take_large_steps, ROUNDS, "RoundsAreOrderly"),
        (take_any_order, ROUNDS, "RoundsAreOrderly"),
        (hurry, ROUNDS, "RoundsAreOrderly"),
        (open_all_gates, RIVALS, "OneWorkerPreempts"),
        (ignore_orders, DRAINED_ALL_DAY, "DrainsAreOrderly"),
        (rush, DRAINED, "DrainsAreOrderly"),
        (drive_out, NOWHERE_TO_GO, "DrainsAreOrderly"),
        (send_all_pods, HALVED, "PodsAreCounted"),
        (charge_all_pods, HALVED, "PodsAreCounted"),
        (give_away_early, HALVED, "PodsAreCounted"),
        (show_all_pods, HALVED, "PodsAreCounted"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_broken_rule_is_found(break_rule, plans, checker, monkeypatch):
    break_rule(monkeypatch)
    assert checker in find_breaches(plans, checker)


WHOLE = {
    "cut and killed": CUT_AND_KILLED,
    "back late": BACK_LATE,
    "deactivated": DEACTIVATED,
    "deleted there": DELETED_THERE,
    "killed as it removes": KILLED_AS_IT_REMOVES,
    "followed": FOLLOWED,
    "rounds": ROUNDS,
    "rivals": RIVALS,
    "drained": DRAINED,
    "drained all day": DRAINED_ALL_DAY,
    "nowhere to go": NOWHERE_TO_GO,
    "halved": HALVED,
}


@pytest.mark.parametrize("plans", WHOLE.values(), ids=WHOLE)
def test_whole_rules_keep_the_promises_there(plans):
    assert find_breaches(plans) == set()


def find_breaches(plans: Iterable[Plan], until: str = "") -> set[str]:
    """Live through runs until one breaks this promise; all that were broken."""
    found: set[str] = set()
    for plan in plans:
        found |= {breach.checker for breach in run_plan(plan).breaches}
        if until in found:
            break
    return found
