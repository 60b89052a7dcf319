"""Measures demand for QuotaPlans, proposes changes of quotas, and applies what was agreed to.

Without a QuotaPlan nothing is sampled or written. With one: a status each hour, and one for each
step. A change stands in the status before its first write, so another manager can go on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from multiqueue.api.conditions import ClusterReason
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1alpha1 import PlanWatch, QuotaPlan, QuotaPlanStatus
from multiqueue.api.v1beta2 import ClusterQueue, Workload
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.capacity.checks import is_multikueue
from multiqueue.controllers.quota_plan.changes import (
    build_patch,
    find_next_write,
    find_owner,
    find_stranger,
    read_moves,
)
from multiqueue.controllers.quota_plan.decide import (
    PlanView,
    begin_change,
    drop_change,
    end_change,
    find_change,
    find_return,
    with_owner,
    with_problem,
    with_proposal,
)
from multiqueue.controllers.quota_plan.demand import (
    LONGEST_HOLE,
    DemandRecord,
    QuotaStay,
    read_demand,
    read_stay,
    write_demand,
)
from multiqueue.controllers.quota_plan.floors import raise_bounds
from multiqueue.controllers.quota_plan.guard import QueueHistory, measure_before
from multiqueue.controllers.quota_plan.propose import SAMPLE_EVERY, QuotaKey, QuotaMove
from multiqueue.controllers.quota_plan.rules import (
    PlanError,
    build_plan_rules,
    check_queues,
    find_stopped,
    list_queues,
    read_credit,
    read_nominal,
)
from multiqueue.dispatch.admission_check import judge_check
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.informers import BY_CLUSTER_QUEUE, BY_QUEUE, checks_of
from multiqueue.jobs.references import reference_of
from multiqueue.kube.client import PatchType
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import CLUSTER_QUEUES, QUOTA_PLANS
from multiqueue.kube.status_writes import write_status
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import StopPolicy
from multiqueue.model.disruption_policy import (
    NonPreemptibleRule,
    build_disruption_rules,
)

WRITE_EVERY = timedelta(hours=1)
"""How often measured demand is written; so much of it is lost when a manager dies, at most."""
FIELD_MANAGER = "multiqueue-quota-plan"
READ_AT_ONCE = 500
"""Workloads that are read before others get their turn."""
EMPTY_STATUS = {field.encode_name: None for field in msgspec.structs.fields(QuotaPlanStatus)}
"""A merge patch keeps what it does not name."""

log = structlog.get_logger("multiqueue.quotas")


class QuotaPlanController:
    """Reconciles QuotaPlans.

    Args:
        context: The manager's context.
    """

    name = "quota-plans"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._records: dict[str, DemandRecord] = {}
        self._reconciler = Reconciler(self.name, self.reconcile, metrics=context.metrics)
        context.informers.quota_plans.add_handler(self._on_plan)

    async def run(self) -> None:
        """Work until cancelled."""
        informers = self._context.informers
        await wait_settled(
            informers.quota_plans,
            informers.cluster_queues,
            informers.cohorts,
            informers.workloads,
            informers.local_queues,
            informers.admission_checks,
            informers.multikueue_configs,
            informers.multikueue_clusters,
            informers.disruption_policies,
        )
        self._records.clear()
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Measure, propose or apply for one plan."""
        plan = self._context.informers.quota_plans.store.get(name)
        if plan is None or plan.metadata.deletion_timestamp:
            self._records.pop(name, None)
            return DONE
        if plan.status.change is not None:
            plan = await self._apply(plan)
        await self._look(plan)
        return Result(requeue_after=SAMPLE_EVERY.total_seconds())

    async def _look(self, plan: QuotaPlan) -> None:
        now = self._context.clock.now()
        queues = self._list_queues(plan)
        quotas = read_nominal(plan, queues)
        try:
            rules, credit = build_plan_rules(plan, quotas), read_credit(plan)
            check_queues(plan, queues, self._list_others(plan))
        except PlanError as error:
            await self._write(plan, with_problem(plan, str(error)))
            return
        stays = await self._list_stays(queues, now)
        rules = raise_bounds(rules, quotas, stays, self._find_parts(queues), now)
        record = self._find_record(plan)
        record.sample(quotas, stays, now=now, credit=credit, half_life=rules.half_life)
        view = PlanView(
            plan=plan,
            rules=rules,
            quotas=quotas,
            demand=record.measured(),
            held=_add_up(stays, now),
            obstacle=find_stopped(queues) or self._find_lost_worker(queues),
        )
        status = with_proposal(view, now)
        watched = status.watch.queues if status.watch is not None else ()
        histories = await self._read_histories(queue.cluster_queue for queue in watched)
        change = find_return(view, status, histories, now) or find_change(view, status)
        if change is None:
            await self._write(plan, status)
            return
        moves = read_moves(change.moves)
        raw = await self._read_queues(moves)
        owners = ((name, find_owner(queue)) for name, queue in raw.items())
        name, owner = next((each for each in owners if each[1]), ("", ""))
        if owner:
            await self._write(plan, with_owner(plan, status, moves, queue=name, owner=owner))
            return
        if rules.watch and status.proposal is not None and change.hash == status.proposal.hash:
            shrink = {move.key.cluster_queue for move in moves if move.after < move.before}
            before = measure_before(await self._read_histories(shrink), rules.watch, now)
            until = format_time(now + rules.watch)
            change = replace(change, watch=PlanWatch(until=until, queues=before))
        await self._apply(await self._write(plan, begin_change(status, change)))

    # ------------------------------------------------------------ reading

    def _list_queues(self, plan: QuotaPlan) -> list[ClusterQueue]:
        informers = self._context.informers
        cohorts = {each.metadata.name: each for each in informers.cohorts.store.list()}
        return list_queues(plan.spec.cohort, cohorts, informers.cluster_queues.store.list())

    def _list_others(self, plan: QuotaPlan) -> dict[str, str]:
        """Return the older plan by each ClusterQueue that another plan has."""
        plans = self._context.informers.quota_plans.store.list()
        older = [other for other in plans if _age(other) < _age(plan)]
        return {
            queue.metadata.name: other.metadata.name
            for other in sorted(older, key=_age, reverse=True)
            for queue in self._list_queues(other)
        }

    def _find_parts(self, queues: Iterable[ClusterQueue]) -> dict[str, NonPreemptibleRule]:
        """Return how much of each queue jobs may hold that nobody may stop, where they may."""
        found = {}
        for queue in queues:
            name = queue.metadata.name
            policy = self._context.informers.find_disruption_policy(name)
            if policy is not None:
                part = build_disruption_rules(policy).protection.non_preemptible
                if part.percent:
                    found[name] = part
        return found

    async def _list_stays(self, queues: Iterable[ClusterQueue], now: datetime) -> list[QuotaStay]:
        """Return what Workloads of some queues hold, or held lately."""
        store, found = self._context.informers.workloads.store, []
        for queue in queues:
            held = store.by_index(BY_CLUSTER_QUEUE, queue.metadata.name)
            async for workload in _take_turns(held):
                stay = read_stay(workload)
                if stay is not None and (stay.ended is None or now - stay.ended < 2 * LONGEST_HOLE):
                    found.append(stay)
        return found

    async def _read_histories(self, queues: Iterable[str]) -> dict[str, QueueHistory]:
        """Return what the Workloads of some ClusterQueues tell of their waits and stops."""
        informers, found = self._context.informers, {}
        for name in queues:
            found[name] = QueueHistory()
            queue = informers.cluster_queues.store.get(name)
            for local in informers.local_queues.store.by_index(BY_CLUSTER_QUEUE, name):
                stopped = any(
                    each is not None and each.spec.stop_policy != StopPolicy.NONE
                    for each in (queue, local)
                )
                asked = informers.workloads.store.by_index(BY_QUEUE, local.metadata.key)
                async for workload in _take_turns(asked):
                    found[name].add(workload, stopped=stopped)
        return found

    def _find_lost_worker(self, queues: Iterable[ClusterQueue]) -> str:
        """Return what a MultiKueue check of some queues lacks, in words; empty if it is whole."""
        informers = self._context.informers
        for name in sorted({check for queue in queues for check in checks_of(queue)}):
            check = informers.admission_checks.store.get(name)
            if check is not None and is_multikueue(check):
                status = judge_check(check, informers)
                if status.reason != ClusterReason.ACTIVE:
                    return f'AdmissionCheck "{name}" says: {status.message}'
        return ""

    def _find_record(self, plan: QuotaPlan) -> DemandRecord:
        name, status = plan.metadata.name, plan.status
        if not status.sampled_until or name not in self._records:
            # It is new, or this manager has just begun.
            self._records[name] = read_demand(status.demand, status.sampled_until)
        return self._records[name]

    async def _read_queues(self, moves: Iterable[QuotaMove]) -> dict[str, dict[str, Any]]:
        """Read the ClusterQueues of some moves with their managedFields, if they are there."""
        found = {}
        for name in sorted({move.key.cluster_queue for move in moves}):
            with contextlib.suppress(NotFound):
                found[name] = await self._context.client.get(CLUSTER_QUEUES, name)
        return found

    # ------------------------------------------------------------ writing

    async def _apply(self, plan: QuotaPlan) -> QuotaPlan:
        """Write what is left of a change; return the plan as it is stored."""
        change = plan.status.change
        if change is None:
            return plan  # it is gone
        now, moves = self._context.clock.now(), read_moves(change.moves)
        raw = await self._read_queues(moves)
        while True:
            current = [decode(ClusterQueue, queue) for queue in raw.values()]
            quotas = read_nominal(plan, current)
            stranger = find_stranger(moves, quotas)
            if stranger is not None:
                return self._tell(await self._write(plan, drop_change(plan, stranger, now)))
            move = find_next_write(moves, quotas)
            if move is None:
                break
            name = move.key.cluster_queue
            raw[name] = await self._context.client.patch(
                CLUSTER_QUEUES,
                name,
                build_patch(raw[name], move),
                patch_type=PatchType.JSON,
                field_manager=FIELD_MANAGER,
            )
            self._context.informers.cluster_queues.observe(decode(ClusterQueue, raw[name]))
            log.info("quota moved", quota_plan=plan.metadata.name, cluster_queue=name)
        whole = {**read_nominal(plan, self._list_queues(plan)), **quotas}
        return self._tell(await self._write(plan, end_change(plan, whole, now)))

    def _tell(self, plan: QuotaPlan) -> QuotaPlan:
        """Record how a change ended."""
        state = plan.status.state
        if state:  # else the plan is gone
            kind = "Normal" if state == "Applied" else "Warning"
            reference = reference_of(QUOTA_PLANS, plan.metadata)
            self._context.recorder.event(reference, kind, f"QuotaPlan{state}", plan.status.message)
        return plan

    async def _write(self, plan: QuotaPlan, status: QuotaPlanStatus) -> QuotaPlan:
        """Write the status, if it says something new or measured demand is due to be written."""
        record = self._records.get(plan.metadata.name)
        status = replace(status, observed_generation=plan.metadata.generation)
        if status == plan.status and not _is_due(plan.status, record):
            return plan
        if record is not None and record.until is not None:
            until = format_time(record.until)
            status = replace(status, demand=write_demand(record), sampled_until=until)
        informer = self._context.informers.quota_plans
        patch = {**EMPTY_STATUS, **encode(status)}
        written = await write_status(self._context.client, informer, plan, patch)
        return replace(plan, status=QuotaPlanStatus()) if written is None else written

    # ------------------------------------------------------------ events

    def _on_plan(self, old: QuotaPlan | None, new: QuotaPlan | None) -> None:
        changed = new or old
        assert changed is not None, "an event has an object"
        if old is None or new is None or old.spec != new.spec:
            self._reconciler.queue.add(changed.metadata.name)


async def _take_turns(workloads: Iterable[Workload]) -> AsyncIterator[Workload]:
    """Yield Workloads, and let others work meanwhile."""
    for number, workload in enumerate(workloads):
        if number % READ_AT_ONCE == READ_AT_ONCE - 1:
            await asyncio.sleep(0)
        yield workload


def _is_due(status: QuotaPlanStatus, record: DemandRecord | None) -> bool:
    if record is None or record.until is None:
        return False
    written = parse_time(status.sampled_until)
    return written is None or record.until - written >= WRITE_EVERY


def _age(plan: QuotaPlan) -> tuple[str, str]:
    return plan.metadata.creation_timestamp, plan.metadata.name


def _add_up(stays: Iterable[QuotaStay], now: datetime) -> dict[QuotaKey, Amount]:
    held: dict[QuotaKey, Amount] = {}
    for stay in stays:
        if not stay.is_over(now):
            for place, amount in stay.amounts.items():
                key = QuotaKey(stay.queue, *place)
                held[key] = held.get(key, 0) + amount
    return held
