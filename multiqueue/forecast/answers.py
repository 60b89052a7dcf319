"""Translate verdicts of a worker's engine into forecasts for dispatchers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.flavors.assignment import Assignment, Mode
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.pending_reasons import reason_of, words_of
from multiqueue.engine.preemption.target import Target
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.what_if import Trial
from multiqueue.forecast.runs import STOP_SECONDS
from multiqueue.lib.amount import UNLIMITED
from multiqueue.model.resources import format_amount
from multiqueue.plugins.forecast import Forecast, Prospect, StartEstimate, StoppedWorkload

FlavorResource = tuple[str, str]
Amounts = Mapping[FlavorResource, int]

STOP = timedelta(seconds=STOP_SECONDS)
A_SECOND = timedelta(seconds=1)
HOPELESS = frozenset({Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR})


@dataclass(frozen=True, slots=True)
class Said:
    """A forecast, and the state of the cohort tree for which it is valid."""

    found: Forecast
    tree: Tree
    version: int
    made_at: datetime

    def holds(self, now: datetime) -> bool:
        """Whether the forecast is still valid; what victims lose grows with time."""
        if self.tree.version != self.version:
            return False
        return self.found.prospect is not Prospect.PREEMPTS or now - self.made_at < A_SECOND

    def at(self, now: datetime) -> Forecast:
        """Return the forecast with its start moved to the given time."""
        start = self.found.start
        if start is None or now == self.made_at:
            return self.found
        passed = now - self.made_at
        return replace(
            self.found,
            start=StartEstimate(
                at=start.at + passed, earliest=start.earliest + passed, latest=start.latest + passed
            ),
        )


def answer(trial: Trial, now: datetime, *, blocked_by: int, never: bool) -> Forecast:
    """Return the forecast for a verdict.

    Args:
        trial: The verdict.
        now: The current time.
        blocked_by: Number of Workloads before it, if its queue is StrictFIFO.
        never: Whether it would not fit even if all other Workloads ended.
    """
    verdict = trial.verdict
    if not isinstance(verdict, Nominated):
        return Forecast(prospect=Prospect.UNKNOWN, reason=verdict.note)
    assignment = verdict.assignment
    if blocked_by and (assignment.mode is Mode.FIT or verdict.targets):
        words = f'waits: ClusterQueue "{trial.queue.name}" is StrictFIFO, {blocked_by} before it'
        return Forecast(prospect=Prospect.WAITS, reason=words)
    if assignment.mode is Mode.FIT:
        return _answer_fit(assignment, trial.queue, now)
    if verdict.targets:
        return _answer_preemption(verdict, trial.queue, now)
    words = words_of(assignment.explanations())
    if never:
        return Forecast(prospect=Prospect.NEVER, reason=words or "no flavor suits")
    return Forecast(prospect=Prospect.WAITS, reason=f"waits: {words}")


def is_hopeless(trial: Trial) -> bool:
    """Whether quota or hardware would be missing even if all other Workloads ended."""
    verdict = trial.verdict
    return (
        isinstance(verdict, Nominated)
        and verdict.assignment.mode is Mode.NO_FIT
        and reason_of(verdict.assignment.explanations()) in HOPELESS
    )


def is_too_large(trial: Trial) -> bool:
    """Whether a smaller gang could fit, if this one never fits."""
    verdict = trial.verdict
    return (
        isinstance(verdict, Nominated)
        and verdict.assignment.mode is Mode.NO_FIT
        and reason_of(verdict.assignment.explanations()) is not Reason.NO_MATCHING_FLAVOR
    )


def find_largest(count: int, may_fit: Callable[[int], bool]) -> int:
    """Return the most pods, fewer than ``count``, that may ever fit. Cost: log2 of ``count``."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        if may_fit(middle):
            low = middle
        else:
            high = middle - 1
    return low


def answer_held(taken: Amounts, queue: CachedQueue, now: datetime) -> Forecast:
    """Return the forecast of a Workload that already holds quota on the worker."""
    node = queue.node
    borrowed = {
        pair: over
        for pair, amount in taken.items()
        if (over := min(amount, _over(node, node.slot(pair), 0))) > 0
    }
    return Forecast(
        prospect=Prospect.BORROWS if borrowed else Prospect.FITS,
        reason="has its quota there",
        taken=taken,
        borrowed=borrowed,
        left={pair: max(0, node.available(node.slot(pair))) for pair in taken},
        start=StartEstimate(at=now, earliest=now, latest=now),
    )


def _answer_fit(assignment: Assignment, queue: CachedQueue, now: datetime) -> Forecast:
    node = queue.node
    pairs = _pairs(node, assignment)
    taken = {pairs[slot]: amount for slot, amount in assignment.usage.items() if amount}
    borrowed = _borrowed(assignment, node, pairs)
    left = {
        pairs[slot]: _bounded(node.available(slot) - amount)
        for slot, amount in assignment.usage.items()
    }
    words = f"fits: {_list(taken)}"
    if borrowed:
        words = f"borrows {_list(borrowed)} of {_list(taken)}"
    places = sum(len(topology.domains) for topology in assignment.topologies.values())
    if places:
        words += f", in {places} place{'s' if places > 1 else ''} of its topology"
    return Forecast(
        prospect=Prospect.BORROWS if borrowed else Prospect.FITS,
        reason=words,
        taken=taken,
        borrowed=borrowed,
        left=left,
        start=StartEstimate(at=now, earliest=now, latest=now),
    )


def _answer_preemption(verdict: Nominated, queue: CachedQueue, now: datetime) -> Forecast:
    assignment, node = verdict.assignment, queue.node
    pairs = _pairs(node, assignment)
    victims = tuple(_victim(target, now) for target in verdict.targets)
    lost = sum((victim.lost for victim in victims), timedelta())
    hours = lost / timedelta(hours=1)
    return Forecast(
        prospect=Prospect.PREEMPTS,
        reason=f"preempts {len(victims)} workload(s), {hours:.1f} GPU hours of work lost",
        taken={pairs[slot]: amount for slot, amount in assignment.usage.items() if amount},
        borrowed=_borrowed(assignment, node, pairs),
        victims=victims,
        left={pairs[slot]: 0 for slot in assignment.usage},
        start=StartEstimate(at=now + STOP / 2, earliest=now, latest=now + STOP),
    )


def _victim(target: Target, now: datetime) -> StoppedWorkload:
    entry: Entry = target.entry
    ran = max(0, int(now.timestamp()) - entry.reserved_at)
    return StoppedWorkload(
        key=entry.key,
        queue=entry.charged,
        priority=entry.workload.priority,
        lost=timedelta(seconds=ran * count_devices(entry.usage)),
    )


def count_devices(usage: Amounts) -> int:
    """Return how many devices a usage has, of all vendors."""
    return sum(amount for (_, resource), amount in usage.items() if "/" in resource)


def _pairs(node: QuotaNode, assignment: Assignment) -> dict[int, FlavorResource]:
    slots = node.slot_by_flavor_resource
    return {slot: pair for pair, slot in slots.items() if slot in assignment.usage}


def _borrowed(
    assignment: Assignment, node: QuotaNode, pairs: Mapping[int, FlavorResource]
) -> dict[FlavorResource, int]:
    return {
        pairs[slot]: over
        for slot, amount in assignment.usage.items()
        if (over := min(amount, _over(node, slot, amount))) > 0
    }


def _over(node: QuotaNode, slot: int, more: int) -> int:
    """Return by how much the usage would exceed the nominal quota."""
    nominal = node.nominal[slot]
    return 0 if nominal >= UNLIMITED else node.usage[slot] + more - nominal


def _bounded(amount: int) -> int:
    return max(0, min(amount, UNLIMITED))


def _list(amounts: Amounts) -> str:
    """Return amounts as ``8 nvidia.com/gpu (a100)``; devices only, if there are any."""
    devices = {pair: amount for pair, amount in amounts.items() if "/" in pair[1]}
    return ", ".join(
        f"{format_amount(resource, amount)} {resource} ({flavor})"
        for (flavor, resource), amount in sorted((devices or amounts).items())
    )
