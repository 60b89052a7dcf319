"""Tells the receivers of the configuration what happens to jobs that ask for it.

Only the leader sends. What happened before it led is not told later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import aiohttp

from multiqueue.api import declarations
from multiqueue.api.conditions import Reason
from multiqueue.api.names import NOTIFY
from multiqueue.api.notify_reasons import NotifyReason, parse_notify
from multiqueue.api.slices import is_replaced
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.variants import parent_of
from multiqueue.capacity.owners import find_job
from multiqueue.controllers.notifications.receiver import ReceiverQueue
from multiqueue.controllers.transitions import Transition, TransitionKind, find_transitions
from multiqueue.jobs.context import ManagerContext
from multiqueue.views.notifications import tell_change

REASONS: Mapping[TransitionKind, NotifyReason] = {
    TransitionKind.ADMITTED: NotifyReason.ADMITTED,
    TransitionKind.PODS_READY: NotifyReason.STARTED,
    TransitionKind.EVICTED: NotifyReason.EVICTED,
    TransitionKind.FINISHED: NotifyReason.FINISHED,
}


class Notifier:
    """Sends notifications while it runs.

    Args:
        context: The manager's context.
    """

    name = "notifications"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._informer = context.informers.workloads
        self._follows = False
        receivers = context.config.notifications.receivers
        self._queues = [ReceiverQueue(each, context.metrics) for each in receivers]

    async def run(self) -> None:
        """Follow Workloads and send until cancelled."""
        await self._informer.settled.wait()
        if not self._follows:  # it may be started again
            self._follows = True
            self._informer.add_handler(self._on_workload)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(cookie_jar=jar) as session, asyncio.TaskGroup() as tasks:
            for queue in self._queues:
                tasks.create_task(queue.run(session), name=f"notify {queue.receiver.name}")

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        # The first state of a Workload is no transition: it may be old.
        if old is None or new is None:
            return
        if parent_of(new) is not None or is_replaced(new.status):
            return  # its parent, or its successor, is the job
        for transition in find_transitions(old, new):
            reason = find_reason(transition)
            if reason is not None and reason in self.find_wanted(new):
                self.tell(tell_change(new, reason, transition.at, transition.message))

    def tell(self, told: Mapping[str, Any]) -> None:
        """Queue a notification for each receiver."""
        for queue in self._queues:
            queue.put(told)

    def find_wanted(self, workload: Workload) -> Collection[NotifyReason]:
        """Return what the job asks for now; an annotation of the Workload has precedence."""
        job = find_job(workload, self._context)
        declared = (job["metadata"].get("annotations") or {}) if job is not None else {}
        annotations = {**declared, **workload.metadata.annotations}
        return declarations.read(annotations, NOTIFY, parse_notify) or ()


def find_reason(transition: Transition) -> NotifyReason | None:
    """Return what people are told of; None if it is nothing of that."""
    if transition.step is TransitionKind.FINISHED and transition.reason == Reason.FAILED:
        return NotifyReason.FAILED
    return REASONS.get(transition.step)
