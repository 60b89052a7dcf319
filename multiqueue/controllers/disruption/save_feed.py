"""Tells the engine when jobs last saved their work.

A job writes the time into its own annotation `names.LAST_CHECKPOINT`, and jobs are watched anyway,
so a report costs no further read and no write. It wakes nobody, because it changes no decision
before the next minute, unless the job was told to save its work (P-52). A new leader reads the
reports with the jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import structlog

from multiqueue.api.names import JOB_UID, LAST_CHECKPOINT
from multiqueue.api.v1beta2 import Workload
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.fleet_gate import FleetGate
from multiqueue.jobs.registry import SupportedKind
from multiqueue.model.disruption_policy import CLOCK_SKEW, parse_last_checkpoint

log = structlog.get_logger("multiqueue.scheduler")


class SaveFeed:
    """Follows the jobs of all kinds.

    Args:
        context: The manager's context, with the informers of jobs.
        engine: The engine to tell.
        fleet: Tells of jobs that run on workers.
        on_change: Called after a report of a job that was told to save its work.
    """

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        fleet: FleetGate,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._context = context
        self._engine = engine
        self._on_change = on_change
        self._refused: set[str] = set()
        self._remote: dict[str, str] = {}
        for informer in context.informers.jobs.values():
            informer.add_handler(self._on_job)
        fleet.follow_checkpoints(self._on_remote)
        context.informers.workloads.add_handler(self._on_workload)
        context.integrations.add_listener(on_added=self._on_added)

    def _on_added(self, kind: SupportedKind) -> None:
        self._context.informers.jobs[kind.integration.name].add_handler(self._on_job)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None and old is not None:
            self._remote.pop(old.metadata.labels.get(JOB_UID, ""), None)

    def _on_job(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        text, before = _report(new), _report(old)
        if text != before:
            metadata = (new or old or {})["metadata"]
            name = f"{metadata.get('namespace', '')}/{metadata['name']}"
            self._take(metadata["uid"], text, name)

    def _on_remote(self, uid: str, text: str) -> None:
        if self._remote.get(uid) != text:
            self._remote[uid] = text
            self._take(uid, text, uid)

    def _take(self, uid: str, text: str, job: str) -> None:
        saved_at = parse_last_checkpoint(text) if text else None
        if self._engine.set_last_checkpoint(uid, saved_at):
            self._on_change()
        problem = self._find_problem(text, saved_at)
        if not problem:
            self._refused.discard(uid)
        elif uid not in self._refused:
            self._refused.add(uid)
            log.warning(
                "report of a checkpoint ignored",
                job=job,
                annotation=LAST_CHECKPOINT,
                value=text[:64],
                problem=problem,
            )

    def _find_problem(self, text: str, saved_at: datetime | None) -> str:
        if not text:
            return ""
        if saved_at is None:
            return "it is not a time such as 2026-11-22T10:00:00Z"
        is_ahead = saved_at > self._context.clock.now() + timedelta(seconds=CLOCK_SKEW)
        return "it is in the future; set the clock of the job's node" if is_ahead else ""


def _report(job: dict[str, Any] | None) -> str:
    annotations = job["metadata"].get("annotations") if job is not None else None
    return str((annotations or {}).get(LAST_CHECKPOINT) or "")
