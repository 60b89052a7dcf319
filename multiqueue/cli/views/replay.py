"""Replays and what-ifs as text and as data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.cli.output import echo, print_table
from multiqueue.engine.preemption.target import HUMAN_REASONS
from multiqueue.views.ages import format_seconds
from multiqueue.whatif.documents import describe_snapshot, workload_to_dict
from multiqueue.whatif.outcome import ReplayedWorkload, ReplayFate, ReplayOutcome, Stop
from multiqueue.whatif.trial import LEFT_OUT, TriedChanges

if TYPE_CHECKING:
    from multiqueue.whatif.difference import Effected
    from multiqueue.whatif.snapshot import Snapshot

Json = dict[str, Any]
_FATES = tuple(ReplayFate)
_FATE_WORDS = {
    ReplayFate.KEEPS: "keep their quota",
    ReplayFate.STARTS: "start",
    ReplayFate.RESTARTS: "are stopped and start again",
    ReplayFate.STOPS: "are stopped",
    ReplayFate.WAITS: "wait",
}


def show_outcome(snapshot: Snapshot, outcome: ReplayOutcome) -> None:
    """Print a replay: who has quota, who starts in which order, who waits and why."""
    echo(f"Snapshot of {format_time(snapshot.taken_at)}, {snapshot.program}")
    show_notes(snapshot, outcome)
    echo()
    rows = sorted(outcome.workloads.values(), key=_rank)
    print_table(
        ["WORKLOAD", "QUEUE", "PRIORITY", "GPUS", "FATE", "PLACE", "WHERE OR WHY"],
        [
            [
                f"{row.key.partition('/')[0]}/{row.job}",
                row.cluster_queue,
                row.priority,
                row.gpus,
                row.fate,
                row.order or row.position,
                _where_or_why(row),
            ]
            for row in rows
        ],
    )
    echo()
    counts = {fate: sum(row.fate is fate for row in rows) for fate in ReplayFate}
    told = [f"{count} {_FATE_WORDS[fate]}" for fate, count in counts.items() if count]
    echo(", ".join(told) or "no Workloads")
    _show_beyond(outcome)


def show_tried(snapshot: Snapshot, tried: TriedChanges) -> None:
    """Print what a change makes different."""
    echo(f"Snapshot of {format_time(snapshot.taken_at)}, {snapshot.program}")
    show_notes(snapshot, tried.after)
    for sentence in tried.changes:
        echo(f"Change: {sentence}")
    echo()
    effected = tried.difference.effected
    if effected:
        print_table(
            ["WORKLOAD", "QUEUE", "PRIORITY", "GPUS", "EFFECT", "BEFORE", "AFTER", "WHY"],
            [_effect_row(each) for each in effected],
        )
    else:
        echo("Nothing changes: the same jobs start, stop and wait.")
    echo()
    sums = tried.difference.sums
    echo(
        f"Start now: {sums.starts}, stopped: {sums.stopped}, wait longer: {sums.longer}, can never "
        f"start: {sums.never}; {sums.gpu_hours_lost:g} GPU-hours of work are at stake"
    )
    echo(
        f"GPUs of quota without a job: {sums.gpus_idle_before} before, {sums.gpus_idle_after} "
        f"after; borrowed: {sums.gpus_borrowed_before} before, {sums.gpus_borrowed_after} after"
    )
    _show_beyond(tried.after)
    echo(f"Left out: {', '.join(LEFT_OUT)}.")


def _show_beyond(outcome: ReplayOutcome) -> None:
    if outcome.gpus_beyond_workers:
        used = outcome.gpus_beyond_workers + (outcome.worker_gpus or 0)
        echo(
            f"Jobs with quota ask for {used} GPUs, and the workers have {outcome.worker_gpus}: "
            f"jobs of {outcome.gpus_beyond_workers} GPUs wait on a worker"
        )


def outcome_to_dict(snapshot: Snapshot, outcome: ReplayOutcome) -> Json:
    """Return a replay for ``-o json``."""
    return {
        **describe_snapshot(snapshot),
        "problem": outcome.problem,
        "gpusBeyondWorkers": outcome.gpus_beyond_workers,
        "workloads": [
            workload_to_dict(row, snapshot) for row in sorted(outcome.workloads.values(), key=_rank)
        ],
        "queues": [{"name": name, **asdict(queue)} for name, queue in outcome.queues.items()],
    }


def show_notes(snapshot: Snapshot, outcome: ReplayOutcome) -> None:
    """Print what the snapshot and the replay lack."""
    for note in snapshot.notes:
        echo(f"note: {note}")
    if outcome.problem:
        echo(f"warning: {outcome.problem}")


def _rank(row: ReplayedWorkload) -> tuple[int, int, str, int, str]:
    place = row.order or 0
    return (_FATES.index(row.fate), place, row.cluster_queue, row.position or 0, row.key)


def _where_or_why(row: ReplayedWorkload) -> str:
    if row.fate.has_quota:
        where = f"on {row.worker}" if row.worker else ""
        quota = f"flavor {', '.join(row.flavors)}" + (", borrowed" if row.borrows else "")
        return "; ".join(filter(None, (quota, where)))
    return row.why


def _effect_row(each: Effected) -> list[Any]:
    row = each.known
    return [
        f"{row.key.partition('/')[0]}/{row.job}",
        row.cluster_queue,
        row.priority,
        row.gpus,
        each.effect,
        _world(each.before),
        _world(each.after),
        _effect_why(each),
    ]


def _world(row: ReplayedWorkload | None) -> str:
    if row is None:
        return "-"
    return f"{row.fate} #{row.position}" if row.position else str(row.fate)


def _effect_why(each: Effected) -> str:
    row = each.known
    stop = row.stop
    if stop is not None and (each.before is None or each.before.stop is None):
        return f"{tell_stop(stop)}; it has run for {format_seconds(stop.lost_seconds)}"
    return _where_or_why(row)


def tell_stop(stop: Stop) -> str:
    """Return for whom and why a Workload is stopped."""
    words = {str(reason): words for reason, words in HUMAN_REASONS.items()}
    if not stop.by:
        return stop.message or stop.reason
    told = f", told {format_seconds(stop.notice_seconds)} before" if stop.notice_seconds else ""
    return f"for {stop.by}: {words.get(stop.reason, stop.reason)}{told}"
