"""In which order the heads of a cycle are decided on (E-28, E-63 to E-65)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from multiqueue.engine.fairness.order import FairOrder
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.world import Course, Head, World


def take_turns(world: World, course: Course, heads: Iterable[Head]) -> Iterator[Head]:
    """Iterate over the heads; with fair sharing, each is chosen when the one before is decided."""
    sharing = world.options.fair_sharing
    if sharing is None:
        yield from sort_heads(heads)
        return
    for head in FairOrder(heads, sharing):
        yield head
        # What is kept for a head that waits counts in the shares.
        course.reservations.make()


def sort_heads(heads: Iterable[Head]) -> list[Head]:
    """Sort by less borrowing, higher priority, earlier time; then uid and key."""
    return after_their_preemptors(
        sorted(heads, key=lambda head: (_borrowing(head), head.entry.rank))
    )


def after_their_preemptors(heads: list[Head]) -> list[Head]:
    """Move heads that had to leave for another head right behind that one.

    Deviates: where a victim that has left comes before the workload it left for, it takes the room
    again and is preempted again, in upstream until the timing of its cycles ends that (E-28). Here
    it is never first, so the room it left goes to whom it was taken for. There is no circle: who
    was a victim held quota then, and forgot whom it had displaced itself when it got that.
    """
    if not any(head.entry.displaced for head in heads):
        return heads
    seen: set[str] = set()
    backwards: list[Head] = []

    def place(head: Head) -> None:
        if head.entry.key in seen:
            return
        seen.add(head.entry.key)
        if head.entry.displaced:
            for other in reversed(heads):
                if other.entry in head.entry.displaced:
                    place(other)
        backwards.append(head)

    for head in reversed(heads):
        place(head)
    return backwards[::-1]


def _borrowing(head: Head) -> int:
    return head.verdict.assignment.borrowing if isinstance(head.verdict, Nominated) else 0
