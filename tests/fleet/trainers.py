"""The training in the jobs of a fleet: it reads by when to save its work, and reports that or not.

It watches its own job on the worker, as jobs there have to, and works inside of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

from multiqueue.api import names
from multiqueue.api.v1beta2.meta import format_time, parse_time
from tests.fleet.api_server import ApiServer
from tests.fleet.history import Change, History
from tests.fleet.kinds import JOB_PLURALS, plural_of
from tests.fleet.objects import Json
from tests.fleet.played_kueue import prebuilt_key

ACTOR = "trainer"
SAVES = "fleet/saves"
"""Annotation of a job: what its training does when it is told to save its work."""
POLICY = "saving"
"""The DisruptionPolicy of the manager's queue."""
LONGEST = 60.0
"""Seconds of the longest notice."""


class Habit(StrEnum):
    """What training does when it is told to save its work."""

    IN_TIME = "in time"
    LATE = "late"
    NEVER = "never"
    LIES = "lies"
    """It reports at once, a time that is before the notice or far in the future."""


class Trainers:
    """The training on one cluster.

    Args:
        server: Of the cluster.
        now: Wall-clock time there.
        history: Tells of changes.
        chance: Draws delays.
    """

    def __init__(
        self, server: ApiServer, *, now: Callable[[], datetime], history: History, chance: Random
    ) -> None:
        self.saved: dict[str, list[datetime]] = {}
        """When work was really saved, by the key of the Workload."""
        self._server = server
        self._now = now
        self._chance = chance
        self._history = history
        history.listen(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.cluster != self._server.name or change.plural not in JOB_PLURALS:
            return
        by = told_by(change.new)
        if change.new is None or not by or by == told_by(change.old):
            return
        left = max(0.0, ((parse_time(by) or self._now()) - self._now()).total_seconds())
        habit = Habit(change.new["metadata"]["annotations"][SAVES])
        match habit:
            case Habit.IN_TIME:
                self._later(left * self._chance.uniform(0.1, 0.9), change.new, timedelta())
            case Habit.LATE:
                self._later(left + self._chance.uniform(0.0, 20.0), change.new, timedelta())
            case Habit.LIES:
                off = self._chance.choice((timedelta(hours=-1), timedelta(hours=1)))
                self._later(0.1, change.new, off)
            case Habit.NEVER:
                pass

    def _later(self, seconds: float, job: Json, off: timedelta) -> None:
        asyncio.get_running_loop().call_later(seconds, self._report, job, off)

    def _report(self, before: Json, off: timedelta) -> None:
        plural, metadata = plural_of(before["kind"]), before["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        job = self._server.find(plural, key)
        if job is None or job["metadata"]["uid"] != metadata["uid"]:
            return
        if not off:
            self.saved.setdefault(prebuilt_key(job), []).append(self._now())
        self._history.note("save", lambda: f"{self._server.name}: {key}, off by {off}")
        note = {names.LAST_CHECKPOINT: format_time(self._now() + off)}
        self._server.edit(plural, key, {"metadata": {"annotations": note}}, actor=ACTOR)


def told_by(job: Json | None) -> str:
    """Return by when a job is told to save its work; "" if it is not."""
    annotations = (job or {"metadata": {}})["metadata"].get("annotations") or {}
    return str(annotations.get(names.CHECKPOINT_BY) or "")


def make_saving_policy(**protection: object) -> Json:
    """Return the policy with which jobs may save their work before they are stopped."""
    return {
        "apiVersion": "multiqueue.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "notice": {"longest": f"{LONGEST:g}s"},
            "protection": protection,
            "migration": {"gain": 1},
        },
    }
