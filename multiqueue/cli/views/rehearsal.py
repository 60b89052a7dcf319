"""Who would be stopped for a job, as text and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiqueue.api.names import CHECKPOINT_SECONDS
from multiqueue.cli.output import echo, print_table
from multiqueue.cli.views.replay import show_notes, tell_stop
from multiqueue.lib.digits import is_number
from multiqueue.lib.words import count_of
from multiqueue.model.resources import format_amount, is_accelerator
from multiqueue.views.ages import format_age, format_seconds
from multiqueue.whatif.difference import Effect, Effected
from multiqueue.whatif.documents import workload_to_dict
from multiqueue.whatif.outcome import ReplayedWorkload
from multiqueue.whatif.snapshot import Snapshot
from multiqueue.whatif.trial import LEFT_OUT, TriedChanges

Json = dict[str, Any]
DEFAULT_GRACE = 30
"""Seconds that Kubernetes gives pods to stop if their template says nothing."""


def list_victims(tried: TriedChanges) -> list[Effected]:
    """Return the Workloads that are stopped because of the change."""
    stopped = {Effect.STOPPED, Effect.RESTARTED}
    return [each for each in tried.difference.effected if each.effect in stopped]


def show_rehearsal(snapshot: Snapshot, tried: TriedChanges, keys: Sequence[str]) -> None:
    """Print whether the jobs would start, and who would be stopped for them."""
    show_notes(snapshot, tried.after)
    victims = list_victims(tried)
    for key in keys:
        echo(_tell_job(tried.after.workloads[key], victims))
    if victims:
        echo()
        print_table(
            ["STOPPED", "QUEUE", "PRIORITY", "GPUS", "AGE", "RAN", "GRACE", "GIVES", "THEN", "WHY"],
            [_victim_row(each, snapshot) for each in victims],
        )
        echo()
        lost = tried.difference.sums.gpu_hours_lost
        echo(f"{lost:g} GPU-hours of work since the last start are at stake; checkpoints save some")
    echo(f"Nothing was written. Left out: {', '.join(LEFT_OUT)}; disruption budgets of pods.")


def rehearsal_to_dict(snapshot: Snapshot, tried: TriedChanges, keys: Sequence[str]) -> Json:
    """Return a rehearsal for ``-o json``."""
    return {
        "notes": list(snapshot.notes),
        "problem": tried.after.problem,
        "jobs": [workload_to_dict(tried.after.workloads[key], snapshot) for key in keys],
        "stopped": [_victim_to_dict(each, snapshot) for each in list_victims(tried)],
        "gpuHoursLost": tried.difference.sums.gpu_hours_lost,
        "leftOut": [*LEFT_OUT, "disruption budgets of pods"],
    }


def _tell_job(row: ReplayedWorkload, victims: Sequence[Effected]) -> str:
    about = f"{count_of(row.gpus, 'GPU')}, priority {row.priority}"
    job = f"{row.job} ({about}) in ClusterQueue {row.cluster_queue}"
    if not row.fate.has_quota:
        place = f", place {row.position}" if row.position else ""
        return f"{job}: would wait{place}: {'; '.join(filter(None, (row.why, row.refusal)))}"
    count = sum(each.known.stop is not None and each.known.stop.by == row.key for each in victims)
    borrowed = ", on borrowed quota" if row.borrows else ""
    quota = f"flavor {', '.join(row.flavors)}{borrowed}"
    if not count:
        return f"{job}: would start now, {quota}; nobody is stopped for it"
    them = "1 job has" if count == 1 else f"{count} jobs have"
    return f"{job}: would start once {them} stopped, {quota}"


def _victim_row(each: Effected, snapshot: Snapshot) -> list[Any]:
    row, stop = each.known, each.known.stop
    assert stop is not None, "it is stopped"
    grace, checkpoint = _read_stop_time(row.key, snapshot)
    saves = f", saves {checkpoint}s" if checkpoint else ""
    return [
        f"{row.key.partition('/')[0]}/{row.job}",
        row.cluster_queue,
        row.priority,
        row.gpus,
        format_age(row.created_at, snapshot.taken_at),
        format_seconds(stop.lost_seconds),
        f"{grace}s{saves}",
        _tell_released(stop.released),
        f"starts again, flavor {', '.join(row.flavors)}" if row.fate.has_quota else "waits",
        tell_stop(stop),
    ]


def _victim_to_dict(each: Effected, snapshot: Snapshot) -> Json:
    row, stop = each.known, each.known.stop
    assert stop is not None, "it is stopped"
    grace, checkpoint = _read_stop_time(row.key, snapshot)
    return {
        **workload_to_dict(row, snapshot),
        "graceSeconds": grace,
        "checkpointSeconds": checkpoint,
        "released": [
            {"flavor": flavor, "resource": resource, "amount": format_amount(resource, amount)}
            for (flavor, resource), amount in sorted(stop.released.items())
        ],
    }


def _tell_released(released: dict[tuple[str, str], int]) -> str:
    """Return the accelerators that are given back; all resources if there are none."""
    some = {pair: n for pair, n in released.items() if is_accelerator(pair[1])} or released
    return ", ".join(
        f"{format_amount(resource, amount)} {resource} of {flavor}"
        for (flavor, resource), amount in sorted(some.items())
    )


def _read_stop_time(key: str, snapshot: Snapshot) -> tuple[int, int | None]:
    """Return the longest grace of its pods, and the declared time of a checkpoint, in seconds."""
    graces, checkpoints = [], []
    for pod_set in snapshot.workloads()[key].spec.pod_sets:
        spec = pod_set.template.get("spec") or {}
        graces.append(int(spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)))
        metadata = pod_set.template.get("metadata") or {}
        declared = (metadata.get("annotations") or {}).get(CHECKPOINT_SECONDS, "")
        if is_number(declared):
            checkpoints.append(int(declared))
    return max(graces, default=DEFAULT_GRACE), max(checkpoints, default=None)
