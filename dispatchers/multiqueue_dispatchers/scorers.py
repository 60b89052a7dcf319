"""The scorers of `score`, one function each: from 0 (worst of a tier) to 1000 (best).

A scorer gets all options of a tier at once, so that it can compare them. If all are equal, it gives
all the same value, and so does not affect the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from multiqueue.plugins import (
    DispatchView,
    Grade,
    Option,
    cost_of,
    find_gain,
    find_speed,
    runtime_on,
    scarce_resource,
)

Scorer = Callable[[DispatchView, Sequence[Option]], Sequence[int]]

BEST = 1000
SUITED = {Grade.MATCH: BEST, Grade.SILENT: BEST // 2}


def hardware(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer hardware that was asked for to undeclared hardware; then what the pods prefer."""
    del view
    most = max((option.fit.preference for option in options), default=0)
    return [(SUITED.get(o.fit.grade, 0) * 2 + _share(o.fit.preference, most)) // 3 for o in options]


def packing(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer the least free capacity after placement, so that large gangs find large gaps."""
    return [BEST - value for value in spreading(view, options)]


def spreading(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer the most free capacity after placement, so that small jobs are spread evenly."""
    scarce = scarce_resource(view.workload)
    left = [sum(n for (_, r), n in o.forecast.left.items() if r == scarce) for o in options]
    most = max(left, default=0)
    return [_share(amount, most) for amount in left]


def guaranteed(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer the queue's own quota to borrowed quota, which may be taken back."""
    scarce = scarce_resource(view.workload)
    return [
        BEST
        - _share(
            sum(n for (_, name), n in o.forecast.borrowed.items() if name == scarce),
            sum(n for (_, name), n in o.forecast.taken.items() if name == scarce),
        )
        for o in options
    ]


def start(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer an early start; a wait counts less the longer the job runs."""
    runtime = view.workload.runtime
    own = runtime.expected if runtime is not None else timedelta(minutes=10)
    return [
        _share(_seconds(own), _seconds(own) + _seconds(o.forecast.start.at - view.now))
        if o.forecast.start is not None
        else BEST // 2
        for o in options
    ]


def speed(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer hardware on which this job is fast."""
    speeds = [find_speed(view.workload, option) for option in options]
    most = max(speeds, default=0)
    return [_share(each, most) for each in speeds]


def gain(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer hardware from which this job gains more than other jobs, which then get theirs."""
    gains = [find_gain(view, option) for option in options]
    most = max(gains, default=0)
    return [_share(each, most) for each in gains]


def finish(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer an early end: the wait plus the time that the job runs there."""
    ends = [
        (_seconds(o.forecast.start.at - view.now) if o.forecast.start is not None else 0)
        + _seconds(runtime_on(view.workload, o))
        for o in options
    ]
    return [_share(min(ends), end) for end in ends]


def load(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer the lowest demand relative to the queue's capacity; else our fewest Workloads."""
    del view
    demands = [o.fit.load_permille or o.cluster.waiting + o.cluster.running for o in options]
    least = min(demands, default=0)
    return [_share(least + 1, demand + 1) for demand in demands]


def yielding(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer queues in which no gang waits for room, so that free room can add up for gangs."""
    scarce = scarce_resource(view.workload)
    queues = [option.cluster.queue for option in options]
    waiting = [queue.backlog.get(scarce, 0) if queue is not None else 0 for queue in queues]
    most = max(waiting, default=0)
    return [BEST - _share(amount, most) for amount in waiting]


def price(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer the lowest cost of the whole job; slow hardware costs longer."""
    costs = [cost_of(view.workload, option) for option in options]
    known = [cost for cost in costs if cost is not None]
    return [_share(min(known) + 1, cost + 1) if cost is not None else 0 for cost in costs]


def locality(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer clusters with the data sets that the job reads."""
    wanted = view.workload.data
    return [_share(len(wanted & option.cluster.data), len(wanted)) for option in options]


def victims(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer to lose the least work of other Workloads, then to stop the fewest."""
    del view
    losses = [
        sum((_seconds(v.lost) for v in o.forecast.victims), len(o.forecast.victims))
        for o in options
    ]
    least = min(losses, default=0)
    return [_share(least + 1, loss + 1) for loss in losses]


def together(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer clusters with more Workloads of the same LocalQueue."""
    del view
    most = max((option.cluster.neighbours for option in options), default=0)
    return [_share(option.cluster.neighbours, most) for option in options]


def apart(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer clusters with fewer Workloads of the same LocalQueue."""
    return [BEST - value for value in together(view, options)]


def health(view: DispatchView, options: Sequence[Option]) -> list[int]:
    """Prefer workers that had few failures lately."""
    del view
    return [round(BEST * option.cluster.health) for option in options]


SCORERS: Mapping[str, Scorer] = MappingProxyType(
    {
        scorer.__name__: scorer
        for scorer in (
            hardware,
            packing,
            spreading,
            guaranteed,
            start,
            speed,
            gain,
            finish,
            load,
            yielding,
            price,
            locality,
            victims,
            together,
            apart,
            health,
        )
    }
)
"""Scorers by the names used in the argument ``scorers``."""
WEIGHTS: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(SCORERS, 0)
    | {
        "hardware": 400,
        "packing": 30,
        "gain": 3,
        "guaranteed": 1,
        "finish": 1,
        "load": 1,
        "yielding": 3,
        "price": 6,
        "locality": 6,
        "victims": 8,
        "health": 4,
    }
)
"""Default weights. Requested hardware comes first, then room for gangs, which large gangs wait for
longer than any hardware gains (docs/simulation.md)."""


def _share(part: int, whole: int) -> int:
    return BEST * part // whole if whole > 0 else 0


def _seconds(span: timedelta) -> int:
    return max(1, int(span.total_seconds()))
