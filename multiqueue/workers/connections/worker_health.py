"""The health of one worker over time: counts requests, keeps the breaker, reports changes.

Everything here happens at once, in the task of the request; nothing waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from multiqueue.workers.connections import health
from multiqueue.workers.connections.health import Circuit, HealthRecord

CONFIRM_SECONDS = 0.2
"""How long a worker that seems to hang gets to prove that it does not. If this program itself was
delayed, the answers have already arrived and are read first."""
PUNCTUAL_SECONDS = 0.1
"""How late this program's own timers may be for the proof to count: a program without CPU time
cannot tell which worker hangs. Nor can it if all workers are silent."""
GRANT_SECONDS = 5.0
"""How long a place on probation is kept for a Workload that may be sent elsewhere."""

log = structlog.get_logger("multiqueue.dispatch")


class WorkerOutcome(Protocol):
    """The outcome of one request; `multiqueue.kube` has the type."""

    @property
    def method(self) -> str:
        """HTTP method."""
        ...

    @property
    def status(self) -> int:
        """HTTP status; 0 for no answer."""
        ...

    @property
    def seconds(self) -> float:
        """How long it took."""
        ...


class WorkerHealth:
    """The health of one worker.

    Args:
        name: The name of the worker.
        on_change: Called when more, or less, may be sent to it.
        others: Returns the health of all other workers.
    """

    def __init__(
        self,
        name: str,
        on_change: Callable[[], None],
        *,
        others: Callable[[], Sequence[WorkerHealth]] = tuple,
    ) -> None:
        self._name = name
        self._on_change = on_change
        self._others = others
        self._health = HealthRecord(heard_at=_now(), since=_now())
        self._grants: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._confirmation: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ interface

    @property
    def now(self) -> HealthRecord:
        """The current health."""
        return self._health

    @property
    def score(self) -> float:
        """From 0, best avoided, to 1, healthy."""
        return self._health.score

    @property
    def is_stalled(self) -> bool:
        """Whether a request was late since the last answer; the next one need not wait as long."""
        return self._health.stalled > 0

    @property
    def refusal(self) -> str:
        """Why nothing new is sent there, in words that go after its name; empty if it is."""
        known = self._health
        if known.circuit is Circuit.OPEN:
            return f"is not sent anything for now: {known.trouble}"
        if known.circuit is Circuit.HALF_OPEN:
            return f"is on probation and gets few workloads at a time: {known.trouble}"
        return ""

    def refuse(self, key: str, *, has_copy: bool, only_asks: bool = False) -> str:
        """Return why a Workload is not sent there now, or why its copy must not wait there.

        On probation, the first Workloads that ask are let through; each keeps its place for a
        while, unless it `only_asks`. A copy stays on a worker that is only slow.
        """
        known = self._health
        if has_copy and known.is_slow:
            return ""
        if known.circuit is not Circuit.HALF_OPEN:
            return self.refusal
        if has_copy:
            return ""
        now = _now()
        self._grants = {k: until for k, until in self._grants.items() if until > now}
        if key in self._grants or len(self._grants) < known.allowance - known.arrived:
            if not only_asks:
                self._grants.setdefault(key, now + GRANT_SECONDS)
            return ""
        return self.refusal

    # ------------------------------------------------------------ outcomes

    def observe(self, outcome: WorkerOutcome) -> None:
        """Count the outcome of a request."""
        if outcome.status == 0:
            self._become(health.note_failure(self._health, "requests fail", _now()))
        elif outcome.status >= 500:
            what = f"it answers with status {outcome.status}"
            self._become(health.note_failure(self._health, what, _now()))
        else:
            # The time of a read depends on the amount of data.
            seconds = outcome.seconds if outcome.method != "GET" else None
            common = min((other.now.usual for other in self._others()), default=0.0)
            self._become(health.note_answer(self._health, seconds, _now(), common=common))

    def note_watch_failure(self) -> None:
        """Count a failure of the watch of our Workloads there."""
        self._become(health.note_failure(self._health, "its watches break", _now()))

    def note_loss(self) -> None:
        """Count a broken session."""
        what = "its connection is lost again and again"
        weight = health.LOST_WEIGHT
        self._become(health.note_failure(self._health, what, _now(), weight=weight))

    def note_late(self, waited: float) -> None:
        """Count a request whose caller stopped waiting for the answer, after so many seconds."""
        self._become(health.note_late(self._health, _now(), waited=waited))
        if self._confirmation is None:
            self._begin_confirmation()

    def note_dispatch(self, key: str, *, taken: bool) -> None:
        """Count that it took a copy or job of a Workload, or refused to."""
        if self._grants.pop(key, None) is not None or not taken:
            self._become(health.note_dispatch(self._health, _now(), taken=taken))

    def close(self) -> None:
        """Report no more changes."""
        for timer in (self._timer, self._confirmation):
            if timer is not None:
                timer.cancel()

    # ------------------------------------------------------------ inside

    def _begin_confirmation(self) -> None:
        hangs_at = health.hangs_at(self._health)
        if hangs_at is None:
            return
        due_at = max(_now() + CONFIRM_SECONDS, hangs_at)
        self._confirmation = asyncio.get_running_loop().call_at(due_at, self._confirm, due_at)

    def _confirm(self, due_at: float) -> None:
        self._confirmation = None
        others = self._others()
        all_silent = bool(others) and all(other.is_stalled for other in others)
        if _now() - due_at > PUNCTUAL_SECONDS or all_silent:
            self._begin_confirmation()
            return
        self._become(health.note_hang(self._health, _now()))

    def _on_timer(self) -> None:
        self._timer = None
        self._become(health.pass_time(self._health, _now()))

    def _become(self, new: HealthRecord) -> None:
        old, self._health = self._health, new
        if (old.circuit, old.allowance) == (new.circuit, new.allowance):
            if old.due_at != new.due_at:
                self._plan(new)
            return
        if new.circuit is not old.circuit:
            told = log.warning if new.circuit is Circuit.OPEN else log.info
            told(
                "circuit of worker changed",
                worker=self._name,
                circuit=new.circuit.value,
                reason=new.trouble,
            )
            self._grants.clear()
        self._plan(new)
        self._on_change()

    def _plan(self, known: HealthRecord) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if known.due_at is not None:
            delay = max(0.0, known.due_at - _now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)


def _now() -> float:
    return asyncio.get_running_loop().time()
