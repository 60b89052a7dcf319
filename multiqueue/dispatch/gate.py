"""The `FleetGate` of a manager that has workers: what they could hold, and the first offer.

The first offer of a Workload is made in the write that reserves its quota. Two writes of its status
in a row would cost an API server more than creating the Workload and its job together. If the
answer is not ready in time, the loop decides after the reservation is written: no quota waits long
for a dispatcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import datetime
from weakref import WeakValueDictionary

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState
from multiqueue.api.names import key_of
from multiqueue.api.workload_checks import find_check, set_check_state
from multiqueue.capacity.checks import find_multikueue_check, is_multikueue
from multiqueue.capacity.fleet_capacity import FleetCapacity
from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.decide import decide
from multiqueue.dispatch.decide.plan import Explain, Nominate
from multiqueue.dispatch.execute.manager_writes import LocalWriter
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation, Observer
from multiqueue.dispatch.remote_notices import RemoteNotices
from multiqueue.engine.remote import ChosenFlavors, Impossible
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.fleet_gate import Amend, unchanged
from multiqueue.model.workload import Workload

PATIENCE_SECONDS = 15.0
"""How long a reservation waits until its queue's previous question is answered. It must be asked
about in any case, and cannot be used before. Reservations of other queues do not wait for it."""

AskDispatcher = Callable[[Observation, GroupMemory], Awaitable[Observation]]
Step = Nominate | Explain


class DispatchGate:
    """Answers the controllers about Workloads whose quota is about to be reserved.

    Args:
        context: The manager's context.
        capacity: What the workers could ever hold.
        config: The configuration of the rules.
        observer: Builds the view of a Workload.
        ask: Asks the dispatcher, and returns the view with its answer.
        recall: Returns the memory of a Workload.
        forget: Called with the uid of a Workload that did not get its quota after all.
        find_fleet_version: Returns the version of the fleet; None while nothing may be dispatched.
        notices: Tells jobs on workers to save their work.
    """

    def __init__(
        self,
        context: ManagerContext,
        capacity: FleetCapacity,
        config: GroupConfig,
        observer: Observer,
        *,
        ask: AskDispatcher,
        recall: Callable[[str], GroupMemory],
        forget: Callable[[str], None],
        find_fleet_version: Callable[[], int | None],
        notices: RemoteNotices,
    ) -> None:
        self._context = context
        self.follow_checkpoints = notices.follow
        self.annotate_job = notices.annotate
        self.find_client = notices.find_client
        self._capacity = capacity
        self._config = config
        self._observer = observer
        self._local = LocalWriter(context)
        self._ask_dispatcher = ask
        self._recall = recall
        self._forget = forget
        self._find_fleet_version = find_fleet_version
        # One lock per queue: a queue with a slow dispatcher delays no other one.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def ask(self, workload: Workload, check: str, flavors: ChosenFlavors) -> Impossible | None:
        """Return why no cluster of the check can ever hold a Workload on these flavors."""
        return self._capacity.ask(workload, check, flavors)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this whenever the answers of `ask` may have changed."""
        self._capacity.add_listener(listener)

    def may_offer(self, checks: Collection[str]) -> bool:
        """Whether one of these checks is a MultiKueue check."""
        store = self._context.informers.admission_checks.store
        found = map(store.get, checks)
        return any(check is not None and is_multikueue(check) for check in found)

    @asynccontextmanager
    async def offer(self, reserved: api.Workload) -> AsyncIterator[Amend]:
        """Yield the change to write with a reservation; the write belongs into the block.

        Args:
            reserved: The Workload as it will be with its reservation.
        """
        check = find_multikueue_check(reserved, self._context.informers)
        found = await self._decide_in_turn(reserved) if check is not None else None
        if check is None or found is None:
            yield unchanged
            return
        step, memory = found
        now = self._context.clock.now()
        try:
            yield lambda status: _with_offer(status, check.name, step, now)
        except BaseException:
            # The offer was not recorded, and nothing else would cause another question.
            memory.asked_at = None
            self._forget(reserved.metadata.uid)
            raise
        if memory.meet(step.trouble):
            self._local.tell(reserved, step.message, warning=True)
        memory.explained_at = now

    async def _decide_in_turn(self, reserved: api.Workload) -> tuple[Step, GroupMemory] | None:
        queue = key_of(reserved.metadata.namespace, reserved.spec.queue_name)
        turn = self._turns.setdefault(queue, asyncio.Lock())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await turn.acquire()
        except TimeoutError:
            return None
        try:
            return await self._decide(reserved)
        finally:
            turn.release()

    async def _decide(self, reserved: api.Workload) -> tuple[Step, GroupMemory] | None:
        version = self._find_fleet_version()
        if version is None:
            return None
        memory = self._recall(reserved.metadata.key)
        seen = self._observer.foresee(reserved, memory, version)
        if not decide(seen.view, self._config, self._context.clock.now()).ask:
            return None
        seen = await self._ask_dispatcher(seen, memory)
        plan = decide(seen.view, self._config, self._context.clock.now())
        first = plan.steps[0] if plan.steps else None
        if plan.removals or not isinstance(first, Nominate | Explain):
            memory.asked_at = None
            return None
        return first, memory


def _with_offer(
    status: api.WorkloadStatus, check: str, step: Step, now: datetime
) -> api.WorkloadStatus:
    """Return the status with the offer, unless the Workload does not wait for one any more."""
    found = find_check(status, check)
    if found is None or found.state != CheckState.PENDING or status.cluster_name is not None:
        return status
    if isinstance(step, Nominate):
        status = msgspec.structs.replace(status, nominated_cluster_names=step.clusters)
    return set_check_state(status, check, CheckState.PENDING, message=step.message, now=now)
