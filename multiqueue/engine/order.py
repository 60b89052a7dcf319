"""In which order the heads of a cycle are decided on (E-28, E-63 to E-65)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from multiqueue.engine.fairness.order import FairOrder
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.options import FairSharing
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.world import Course, Head, World


def take_turns(world: World, course: Course, heads: list[Head]) -> Iterator[Head]:
    """Iterate over the heads; with fair sharing, each is chosen when the one before is decided."""
    sharing = world.options.fair_sharing
    turns = _take_fair_turns(course, heads, sharing) if sharing else iter(sort_heads(heads))
    displaced = {head.entry: head.entry.displaced for head in heads if head.entry.displaced}
    return after_their_preemptors(turns, displaced) if displaced else turns


def _take_fair_turns(course: Course, heads: list[Head], sharing: FairSharing) -> Iterator[Head]:
    for head in FairOrder(heads, sharing):
        yield head
        # What is kept for a head that waits counts in the shares.
        course.reservations.make()


def sort_heads(heads: Iterable[Head]) -> list[Head]:
    """Sort by less borrowing, higher priority, earlier time; then uid and key."""
    return sorted(heads, key=lambda head: (_borrowing(head), head.entry.rank))


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
