"""The promises of multi-cluster dispatch, over random histories with faults between any two writes.

I-1 at most one cluster runs a Workload; I-2 the winner was nominated; I-3 what is not ours is left
alone; I-4 nothing of ours stays behind; I-5 a finished job is finished, and never runs again; and
at the end, when everything heals, every Workload ends. `multikueue_fleet` raises where one is
broken.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.properties.multikueue_fleet import LOST_TIMEOUT, Fleet, make_fleet

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)


class Promises(RuleBasedStateMachine):
    fleet: Fleet
    ends: str

    @initialize(
        race=st.booleans(), foreign=st.sets(names, max_size=1), ends=st.sampled_from(["", "d", "f"])
    )
    def begin(self, race, foreign, ends):
        self.fleet = make_fleet(NAMES, race=race)
        self.ends = ends
        for name in foreign:
            self.fleet.workers[name].foreign_job = True

    def worker(self, name):
        return self.fleet.workers[name]

    @rule(writes=st.none() | st.integers(0, 6), crash=st.booleans())
    def manager_acts(self, writes, crash):
        done = self.fleet.step(writes=writes)
        if not done or crash:
            self.fleet.restart()

    @rule()
    def manager_acts_undisturbed(self):
        self.fleet.step()

    @rule(name=names, writes=st.none() | st.integers(0, 6))
    def a_worker_wins(self, name, writes):
        self.fleet.core()
        self.fleet.reserve()
        self.fleet.step()
        self.fleet.admit(self.worker(name))
        self.news_arrive(name)
        self.manager_acts(writes, crash=False)

    @rule(name=names)
    def its_job_gets_going(self, name):
        self.fleet.step()
        self.fleet.work(self.worker(name))
        self.news_arrive(name)
        self.fleet.step()

    @rule()
    def core_acts(self):
        self.fleet.core()

    @rule()
    def scheduler_reserves(self):
        self.fleet.reserve()

    @rule()
    def manager_preempts(self):
        self.fleet.evict()

    @rule(evicts=st.booleans())
    def manager_restarts_and_workers_go_before_it_looks(self, evicts):
        if evicts:
            self.fleet.evict()
        self.fleet.restart()
        for name in NAMES:
            self.network_breaks(name)

    @rule(name=names)
    def worker_admits(self, name):
        self.fleet.admit(self.worker(name))

    @rule(name=names)
    def worker_evicts(self, name):
        self.fleet.evict_on(self.worker(name))

    @rule(name=names)
    def worker_acts(self, name):
        self.fleet.work(self.worker(name))

    @precondition(lambda self: self.ends == "f")
    @rule(name=names)
    def job_ends(self, name):
        self.fleet.finish_on(self.worker(name))

    @rule(name=names)
    def news_arrive(self, name):
        if self.worker(name).up:
            self.worker(name).deliver()

    @rule(name=names)
    def network_breaks(self, name):
        self.fleet.cut(self.worker(name))

    @rule(name=names)
    def network_heals(self, name):
        self.fleet.heal(self.worker(name))

    @rule(name=names)
    def configuration_changes(self, name):
        worker = self.worker(name)
        worker.configured = not worker.configured

    @rule(name=names)
    def copy_is_deleted_by_hand(self, name):
        worker = self.worker(name)
        worker.workload = None
        self.fleet.work(worker)

    @rule(name=names)
    def job_is_deleted_by_hand(self, name):
        self.worker(name).job = None
        self.fleet.work(self.worker(name))

    @rule(name=names)
    def copy_is_out_of_sync(self, name):
        self.fleet.end_out_of_sync(self.worker(name))

    @rule(name=names)
    def copy_without_job_is_finished(self, name):
        self.fleet.end_without_job(self.worker(name))

    @rule(name=names)
    def worker_is_wiped(self, name):
        worker = self.worker(name)
        worker.workload, worker.job = None, None
        self.fleet.work(worker)

    @rule(seconds=st.sampled_from([1, 60, 600, 1000]))
    def time_passes(self, seconds):
        self.fleet.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.fleet.local is not None and self.ends == "d")
    @rule()
    def user_deletes(self):
        self.fleet.local = replace(self.fleet.local, deleting=True)

    def teardown(self):
        if not hasattr(self, "fleet"):
            return
        fleet = self.fleet
        for worker in fleet.workers.values():
            fleet.heal(worker)
            worker.configured = True
            worker.foreign_job = worker.foreign_job and worker.name == "a"
        fleet.memory.refusals.clear()
        for _ in range(40):
            fleet.now += LOST_TIMEOUT / 10
            fleet.step()
            fleet.core()
            if fleet.local is not None and fleet.local.deleting and not fleet.local.job.active:
                fleet.local = None
            fleet.reserve()
            for worker in fleet.workers.values():
                fleet.admit(worker)
                worker.deliver()
                if fleet.local is not None and fleet.local.cluster_name == worker.name:
                    fleet.finish_on(worker)
                    worker.deliver()
        assert fleet.local is None or fleet.local.finished, f"stuck: {fleet.local}"
        for worker in fleet.workers.values():
            assert worker.job is None, f"I-4: a job was left on {worker.name}"
            assert worker.workload is None, f"I-4: a copy was left on {worker.name}"


TestPromises = Promises.TestCase
TestPromises.settings = settings(
    max_examples=300,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
