"""A change tried on a snapshot: the world without it, the world with it, the difference. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiqueue.whatif.change_request import Submit
from multiqueue.whatif.changes import apply_change
from multiqueue.whatif.difference import Difference, compare_outcomes
from multiqueue.whatif.outcome import ReplayOutcome
from multiqueue.whatif.replay import replay
from multiqueue.whatif.snapshot import Snapshot

LEFT_OUT = (
    "jobs that come later",
    "jobs that end",
    "backoffs that pass",
    "which worker takes a job, and how long it waits there",
    "failures",
)
"""What no answer considers; said with every answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedChanges:
    """The result of a what-if.

    Attributes:
        changes: What each change did, in a sentence.
        before: The replay without the changes.
        after: The replay with them.
        difference: What differs.
    """

    changes: tuple[str, ...]
    before: ReplayOutcome
    after: ReplayOutcome
    difference: Difference


def try_out(snapshot: Snapshot, changes: Sequence[str], submit: Submit) -> TriedChanges:
    """Replay a snapshot with and without changes, which are made in their order.

    Args:
        snapshot: The snapshot; not changed.
        changes: The changes.
        submit: Submits the jobs of a file that a change names.

    Raises:
        ChangeError: a change cannot be made.
        SnapshotError: the snapshot cannot be replayed.
    """
    changed = snapshot.copy()
    done = tuple(apply_change(changed, text, submit) for text in changes)
    return compare_worlds(snapshot, changed, done)


def compare_worlds(snapshot: Snapshot, changed: Snapshot, done: tuple[str, ...]) -> TriedChanges:
    """Replay two snapshots, of which the second is a changed copy of the first."""
    before = replay(snapshot)
    after = replay(changed, snapshot)
    return TriedChanges(
        changes=done, before=before, after=after, difference=compare_outcomes(before, after)
    )
