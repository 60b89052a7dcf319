"""The life of a Workload as spans: which phase it was in, where, from when to when. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from multiqueue.api import workload_state
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.views.phase import ENDED, PhaseState, find_phase


class PhaseStep(NamedTuple):
    """The moment when a Workload entered a phase.

    Attributes:
        at: When it did.
        phase: The phase.
        worker: The worker it was on; None if there was none.
        code: The reason for programs; empty if there was none.
        why: The reason, cut.
    """

    at: datetime
    phase: str
    worker: str | None
    code: str = ""
    why: str = ""


class Span(NamedTuple):
    """A time in one phase; ``to`` is None for the current one, and for the end."""

    transition: PhaseStep
    to: datetime | None


def build_spans(workload: Workload, noted: Sequence[PhaseStep]) -> list[Span]:
    """Return the spans of a Workload, the oldest first.

    Args:
        workload: The Workload now; its conditions tell what was not noted.
        noted: The transitions that were seen, the oldest first.
    """
    first = noted[0].at if noted else None
    beginning, *later = _from_conditions(workload)
    earlier = [beginning, *(each for each in later if first is None or each.at < first)]
    steps: list[PhaseStep] = []
    for step in [*earlier, *noted]:
        if not steps or (steps[-1].phase, steps[-1].worker) != (step.phase, step.worker):
            steps.append(step)
    ends = [step.at for step in steps[1:]]
    return [Span(step, to) for step, to in zip(steps, [*ends, None], strict=True)]


def _from_conditions(workload: Workload) -> Iterator[PhaseStep]:
    """Yield what the conditions of the current round tell, the oldest first."""
    status, worker = workload.status, workload.status.cluster_name or None
    yield PhaseStep(workload.metadata.created_at, str(PhaseState.QUEUED), None)
    steps = (
        (WorkloadCondition.QUOTA_RESERVED, PhaseState.CHECKING, None),
        (WorkloadCondition.ADMITTED, PhaseState.ADMITTED, worker),
        (WorkloadCondition.PODS_READY, PhaseState.RUNNING, worker),
    )
    found = []
    for type_, phase, where in steps:
        condition = workload_state.find(status, type_)
        at = parse_time(condition.last_transition_time) if condition is not None else None
        if condition is not None and condition.status == "True" and at is not None:
            found.append(PhaseStep(at, str(phase), where))
    yield from sorted(found, key=lambda each: each.at)
    now = find_phase(workload)
    if now.state in ENDED and now.since is not None:
        yield PhaseStep(now.since, str(now.state), worker, "", now.why)
