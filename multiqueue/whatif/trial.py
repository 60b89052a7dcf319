"""A change tried on a snapshot: the world without it, the world with it, the difference. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multiqueue.whatif.change_request import Submit
from multiqueue.whatif.changes import apply_change
from multiqueue.whatif.difference import Difference, Effected, compare_outcomes
from multiqueue.whatif.outcome import ReplayOutcome
from multiqueue.whatif.replay import ReplayRun, list_holders
from multiqueue.whatif.snapshot import Snapshot

LEFT_OUT = (
    "jobs that come later",
    "jobs that end",
    "backoffs that pass",
    "which worker takes a job, and how long it waits there",
    "when running jobs last saved their work",
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


def tell_all(effected: Sequence[Effected]) -> list[str]:
    """Return the keys of all Workloads for which two worlds differ."""
    return [each.key for each in effected]


def compare_worlds(
    snapshot: Snapshot,
    changed: Snapshot,
    done: tuple[str, ...],
    choose: Callable[[Sequence[Effected]], Sequence[str]] = tell_all,
) -> TriedChanges:
    """Replay two snapshots, of which the second is a changed copy of the first.

    Args:
        snapshot: The snapshot.
        changed: The changed copy.
        done: What each change did, in a sentence.
        choose: Chooses the Workloads whose reasons are told, by key.
    """
    held = list_holders(snapshot)
    worlds = ReplayRun(snapshot, held), ReplayRun(changed, held)
    before, after = (world.decide() for world in worlds)
    keys = choose(compare_outcomes(before, after).effected)
    for world, outcome in zip(worlds, (before, after), strict=True):
        world.explain(outcome, keys)
    return TriedChanges(
        changes=done, before=before, after=after, difference=compare_outcomes(before, after)
    )
