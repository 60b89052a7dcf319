"""The order in which a cycle decides on its heads (E-28, E-63 to E-65)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from multiqueue.engine.fairness.order import FairOrder
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.options import TurnRules
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.world import Course, EngineParts, Head


def take_turns(world: EngineParts, course: Course, heads: list[Head]) -> Iterator[Head]:
    """Yield the heads in order; with fair sharing, choose each after the one before it."""
    sharing, rules = world.options.fair_sharing, world.options.turns
    turns = (
        _take_fair_turns(course, FairOrder(heads, sharing, rules))
        if sharing
        else iter(sort_heads(heads, rules))
    )
    displaced = {head.entry: head.entry.displaced for head in heads if head.entry.displaced}
    return after_their_preemptors(turns, displaced) if displaced else turns


def _take_fair_turns(course: Course, turns: FairOrder) -> Iterator[Head]:
    for head in turns:
        yield head
        # Reservations for waiting heads count in the shares.
        course.reservations.make()


def sort_heads(heads: Iterable[Head], rules: TurnRules) -> list[Head]:
    """Sort by less borrowing, higher priority, earlier time; then uid and key (E-63)."""
    return sorted(
        heads,
        key=lambda head: (
            rules.preemptors_first and not head.is_preemptor,
            _borrowing(head),
            head.rank(by_priority=rules.by_priority),
        ),
    )


def after_their_preemptors(
    turns: Iterator[Head], displaced: dict[Entry, frozenset[Entry]]
) -> Iterator[Head]:
    """Put off a head that had to leave for another head until that one was decided on.

    Deviates: if a victim that has left is decided on before its preemptor, it takes the room
    again and is preempted again. In upstream that repeats until the timing of its cycles ends it
    (E-28). Here the preemptor gets the room that was freed for it.

    Args:
        turns: the heads in their order.
        displaced: by head, the workloads that leave or left for it. There is no circle: a victim
            held quota when it became one, and its own list was cleared when it got that quota.
    """
    put_off: list[Head] = []
    for turn in turns:
        put_off.append(turn)
        while ready := [head for head in put_off if not _is_put_off(head, displaced)]:
            put_off.remove(ready[0])
            yield ready[0]
            displaced.pop(ready[0].entry, None)


def _is_put_off(head: Head, displaced: dict[Entry, frozenset[Entry]]) -> bool:
    return any(head.entry in victims for victims in displaced.values())


def _borrowing(head: Head) -> int:
    return head.verdict.assignment.borrowing if isinstance(head.verdict, Nominated) else 0
