"""In which order the heads of a cycle are decided on (E-28, E-63 to E-65)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from multiqueue.engine.fairness.order import FairOrder
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.options import TurnRules
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.world import Course, EngineParts, Head


def take_turns(world: EngineParts, course: Course, heads: list[Head]) -> Iterator[Head]:
    """Iterate over the heads; with fair sharing, each is chosen when the one before is decided."""
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
        # What is kept for a head that waits counts in the shares.
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
    """Put off heads that had to leave for another head until that one had its turn.

    Deviates: where a victim that has left comes before the workload it left for, it takes the room
    again and is preempted again, in upstream until the timing of its cycles ends that (E-28). Here
    the room it left goes to whom it was taken for.

    Args:
        turns: the heads in their order.
        displaced: by head, who leaves or left for it. There is no circle: a victim held quota when
            it became one, and forgot whom it had displaced itself when it got that.
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
