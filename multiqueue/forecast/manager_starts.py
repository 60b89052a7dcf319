"""Estimate when Workloads that wait for the manager's own quota start.

The simulation is that for workers, over the manager's own cohort trees. A cluster without workers
has estimates, too. The engine is read, and the usage of its trees is restored before anything else
runs. Handlers only remember which Workloads changed. They are read at the next question, in short
steps, so that admission never waits for estimates.

If the ClusterQueue has admission checks, the time that they took for earlier Workloads is added.
For a MultiKueue check this is dispatching, and the wait on the worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import Reason
from multiqueue.engine.engine import Engine
from multiqueue.engine.pending_reasons import Explanation
from multiqueue.forecast.calibration import Calibration
from multiqueue.forecast.estimates import Budget
from multiqueue.forecast.other_workload import CheckTimes, read_check_time
from multiqueue.forecast.range_factor import widen
from multiqueue.forecast.starts import Starts
from multiqueue.forecast.worker_forecast import follow
from multiqueue.jobs.context import ManagerContext
from multiqueue.model.build_workload import BuildOptions, build_workload
from multiqueue.model.cluster_queue import build_cluster_queue, build_local_queue
from multiqueue.model.resource_flavor import build_resource_flavor
from multiqueue.model.workload import Workload
from multiqueue.plugins.forecast import Basis, Forecast, Prospect, Runtime, StartEstimate
from multiqueue.views.start import (
    NoEstimate,
    StartCaveat,
    StartStage,
    TreeRuntimes,
    tell_no_start,
    tell_stage,
    tell_start,
    with_promise,
)

STEP = 20
"""Changed Workloads that are read before other tasks run: some milliseconds."""
TRIES = 1200
"""What one estimate may try (`timeline.TRIES`): at most 10 ms of computing if ten thousand wait."""
WEAKEST_LAST = tuple(Basis)
NO_ESTIMATE: Mapping[Reason, NoEstimate] = {
    Reason.EXCEEDS_MAX_QUOTA: NoEstimate.NEVER,
    Reason.NO_MATCHING_FLAVOR: NoEstimate.PARKED,
    Reason.MISCONFIGURED: NoEstimate.PARKED,
    Reason.WAITING_FOR_PODS_READY: NoEstimate.PARKED,
    Reason.SUSPENDED: NoEstimate.HELD,
    Reason.ON_HOLD: NoEstimate.HELD,
    Reason.ADMISSION_GATED: NoEstimate.HELD,
    Reason.DEACTIVATED: NoEstimate.HELD,
}
"""Reasons of waiting that end with a change, and not with the end of other Workloads."""

Json = Mapping[str, Any]
ToldStart = tuple[Json, StartEstimate | None]
"""What is told, and the estimate with its range as it was computed; None if there is none."""
FindRuntime = Callable[[str, Mapping[tuple[str, str], int]], Runtime | None]
"""Returns a Workload's runtime on what it holds; None if there is no such Workload."""
log = structlog.get_logger("multiqueue.scheduler")


class ManagerStarts:
    """Estimates of when Workloads get the manager's quota.

    Create it after the engine follows the informers: it reads Workloads from the engine.

    Args:
        context: The manager's context.
        engine: The engine; only read.
        find_runtime: Finds how long a Workload runs.
        options: How objects are read.

    Attributes:
        calibration: Compares the estimates with the starts that came.
    """

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        find_runtime: FindRuntime,
        options: BuildOptions,
    ) -> None:
        self._engine = engine
        self._find_runtime = find_runtime
        self._options = options
        self._now = context.clock.now
        judged, factor = (
            context.metrics.start_estimates_total,
            context.metrics.start_estimate_factor,
        )
        self.calibration = Calibration(
            lambda *labels: judged.child(*labels).inc(),
            lambda stage, horizon, value: factor.child(stage, horizon).set(value),
        )
        self._starts = Starts(engine.rank_of)
        self._turns: dict[str, object] = {}
        self._check_times = CheckTimes()
        self._seen: dict[str, tuple[Workload, str, Basis]] = {}
        self._bases: dict[str, Counter[Basis]] = {}
        self._changed: dict[str, api.Workload | None] = {}
        informers, starts = context.informers, self._starts
        for informer, build, put in (
            (informers.resource_flavors, build_resource_flavor, starts.set_flavor),
            (
                informers.cluster_queues,
                partial(build_cluster_queue, concurrent=options.concurrent),
                starts.set_cluster_queue,
            ),
            (
                informers.local_queues,
                lambda obj: build_local_queue(obj).cluster_queue,
                starts.set_local_queue,
            ),
        ):
            follow(informer, partial(self._put_queue, build, put), partial(self._drop_queue, put))
        informers.workloads.add_handler(self._on_workload)

    @property
    def unread(self) -> Collection[str]:
        """The Workloads that changed since the last question."""
        return self._changed.keys()

    @property
    def known(self) -> Collection[str]:
        """The Workloads that estimates rest on."""
        return self._seen.keys()

    async def find_start(self, key: str) -> Json | None:
        """Return when a waiting Workload is expected to start, or why nobody knows.

        None if it does not wait for quota here. The first question after a restart reads all
        Workloads, 0.1 to 0.2 ms each; other tasks run meanwhile.
        """
        await self._read_changed()
        now = self._now()
        found = self._answer(key, now)
        if found is None:
            return None
        start, narrow = found
        self.calibration.keep(key, start, now, narrow)
        return start

    def add_calibration(self, start: Json) -> Json:
        """Add how the last estimates held that are like this one, if it is one."""
        calibration = self.calibration.describe(start, self._now())
        return start if calibration is None else {**start, "calibration": calibration}

    def list_calibrations(self) -> Iterator[Json]:
        """Yield how the last estimates held, by stage and horizon."""
        yield from self.calibration.list_rows(self._now())

    async def _read_changed(self) -> None:
        for _ in range(len(self._changed) // STEP + 1):
            self._catch_up()
            await asyncio.sleep(0)

    async def foresee(self, obj: api.Workload, reason: Reason, message: str) -> Json:
        """Return when a Workload that does not exist would start, or why nobody knows.

        Args:
            obj: The Workload, which the engine does not know.
            reason: Why it would wait.
            message: The same in words.
        """
        await self._read_changed()
        built = build_workload(obj, self._options)
        queue = self._engine.local_queue_target(built.queue) or ""
        explanation = Explanation(
            workload=built.key, cluster_queue=queue, cause=reason, note=message
        )
        start, _ = self._estimate(built, explanation, self._now())
        return self.add_calibration(start)

    def _answer(self, key: str, now: datetime) -> ToldStart | None:
        explanation = self._engine.workload_reason(key)
        workload = self._engine.find_workload(key)
        if explanation is None or workload is None:
            return None
        if key not in self._seen and explanation.reason not in NO_ESTIMATE:
            return tell_no_start(NoEstimate.STARTING), None
        start, narrow = self._estimate(workload, explanation, now)
        held_back = explanation.held_back
        if held_back is None or held_back.promised is None:
            return start, narrow
        return with_promise(start, datetime.fromtimestamp(held_back.promised, UTC)), narrow

    def _estimate(self, workload: Workload, explanation: Explanation, now: datetime) -> ToldStart:
        code = NO_ESTIMATE.get(explanation.reason)
        if code is not None:
            return tell_no_start(code, explanation.message), None
        queue = self._engine.local_queue_target(workload.queue) or ""
        tree = self._engine.parts.cache.tree_by_queue.get(queue)
        if tree is None:
            return tell_no_start(NoEstimate.STARTING), None
        self._follow_turns(tree.queues)
        found = self._starts.estimate(tree, workload, now, Budget(left=TRIES))
        if found is None:
            return tell_no_start(NoEstimate.NEVER, explanation.message), None
        if found.latest <= now and explanation.reason is not Reason.PENDING_EVALUATION:
            # There is room in the queues, and the engine still refuses it.
            return tell_no_start(NoEstimate.PARKED, explanation.message), None
        rules = tree.queues[queue].spec.checks
        checks = [rule.name for rule in rules]
        whole = self._add_checks(found, queue, checks)
        stage = StartStage.WHOLE if whole is not None else StartStage.QUOTA
        runtimes = self._count_runtimes(tree.queues)
        narrow = whole or found
        factor = self.calibration.find_factor(stage, narrow.at, now)
        told = tell_start(
            widen(narrow, factor, now),
            made=now,
            stage=stage,
            runtimes=runtimes,
            caveats=self._list_caveats(queue, explanation, runtimes, stage),
            checks=checks,
            factor=factor,
            stages=[
                tell_stage(name, widen(end, factor, now))
                for name, end in (("quota", found), ("checks", whole if checks else None))
                if end is not None
            ],
        )
        return told, narrow

    def _follow_turns(self, queues: Iterable[str]) -> None:
        """Rank those that wait as the engine does, if it ranks them by turns, or did."""
        for name in queues:
            revision = self._engine.turns_revision(name)
            if revision is not self._turns.get(name):
                self._turns[name] = revision
                self._starts.rank_again(name)

    def _add_checks(
        self, found: StartEstimate, queue: str, checks: list[str]
    ) -> StartEstimate | None:
        """Return the start after the checks; None if their time is unknown."""
        quota = Forecast(prospect=Prospect.WAITS, start=found)
        return self._check_times.apply(quota, queue, checks).start

    def _list_caveats(
        self, queue: str, explanation: Explanation, runtimes: TreeRuntimes, stage: StartStage
    ) -> list[StartCaveat]:
        state, usage = self._engine.cluster_queue_state(queue), self._engine.usage
        takes_turns = usage is not None and usage.counts_in(queue)
        is_fair = state is not None and state.weighted_share is not None
        holds = {
            StartCaveat.CHECKS: stage is StartStage.QUOTA,
            StartCaveat.PREEMPTION: bool(explanation.victims),
            StartCaveat.ASSUMED_RUNTIMES: runtimes.assumed > 0,
            StartCaveat.DECLARED_RUNTIMES: runtimes.weakest is Basis.DECLARED,
            StartCaveat.TURNS_BY_USAGE: takes_turns or is_fair,
            StartCaveat.LATER_ARRIVALS: True,
        }
        return [caveat for caveat, is_true in holds.items() if is_true]

    def _count_runtimes(self, queues: Mapping[str, object]) -> TreeRuntimes:
        counts: Counter[Basis] = Counter()
        for name in queues:
            counts.update(self._bases.get(name, {}))
        present = filter(counts.__getitem__, counts)
        weakest = max(present, key=WEAKEST_LAST.index, default=Basis.ASSUMED)
        return TreeRuntimes(known=counts.total(), assumed=counts[Basis.ASSUMED], weakest=weakest)

    # ------------------------------------------------------------ following

    def _put_queue(
        self, build: Callable[[Any], Any], put: Callable[[str, Any], None], obj: Any
    ) -> None:
        put(obj.metadata.key, build(obj))
        self._starts.forget_estimates()

    def _drop_queue(self, put: Callable[[str, Any], None], key: str) -> None:
        put(key, None)
        self._starts.forget_estimates()

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        known = new or old
        assert known is not None, "an event is about an object"
        key = known.metadata.key
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self.calibration.follow(key, None, self._now())
        self.calibration.follow(key, new, self._now())
        if new is not None or key in self._seen:
            self._changed[key] = new
        else:
            self._changed.pop(key, None)  # it came and went between two questions

    def _catch_up(self) -> None:
        """Read some of the Workloads that changed since the last question."""
        for key in list(self._changed)[:STEP]:
            obj = self._changed.pop(key)
            try:
                self._read(key, obj)
            except Exception:  # one malformed Workload must not hide the others
                log.exception("start cannot be estimated", workload=key)

    def _read(self, key: str, obj: api.Workload | None) -> None:
        before = self._seen.pop(key, None)
        if before is not None:
            self._bases[before[1]][before[2]] -= 1
        workload = self._engine.find_workload(key)
        if workload is None or obj is None:
            self._starts.drop(before[0] if before is not None else None)
            return
        held = workload.reservation
        used = held.admission.usage() if held is not None else {}
        runtime = self._find_runtime(key, used)
        basis = runtime.basis if runtime is not None else Basis.ASSUMED
        queue = self._engine.local_queue_target(workload.queue) or ""
        if held is not None:
            queue = held.admission.cluster_queue
            took = read_check_time(obj.status)
            if took is not None:
                self._check_times.learn(queue, obj.metadata.uid, took)
        known = before[0] if before is not None else None
        self._starts.put(known, workload, runtime, self._now())
        self._seen[key] = (workload, queue, basis)
        self._bases.setdefault(queue, Counter())[basis] += 1
