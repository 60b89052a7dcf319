"""The cycles of an engine in virtual time, and the condition of whom they stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2.meta import Condition, format_time
from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Decision
from multiqueue.simulation.agenda import SimulationAgenda, Timer


class EngineCycles:
    """Runs the cycles of an engine when they are due.

    Args:
        engine: The engine.
        agenda: The virtual clock.
        on_decisions: Gets the decisions of each cycle.
    """

    def __init__(
        self,
        engine: Engine,
        agenda: SimulationAgenda,
        on_decisions: Callable[[Sequence[Decision]], None],
    ) -> None:
        self._engine = engine
        self._agenda = agenda
        self._on_decisions = on_decisions
        self._timer = Timer(agenda, self.run)

    def rearm(self) -> None:
        """Look when the next cycle is due; to be called after each change."""
        at = self._engine.next_cycle_at(self._agenda.now)
        if at is not None:
            self._timer.set(at)

    def run(self) -> None:
        """Run a cycle now."""
        plan = self._engine.run_cycle(self._agenda.now)
        for failure in plan.failures:
            raise failure.error
        self._on_decisions(plan.decisions)
        self.rearm()


def make_evicted(reason: str, now: datetime) -> Condition:
    """Return the condition of a Workload that is evicted now."""
    return Condition(
        type=WorkloadCondition.EVICTED,
        status="True",
        reason=reason,
        last_transition_time=format_time(now),
    )
