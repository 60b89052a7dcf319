"""A what-if as a JSON document: the same for the command line and for the fleet API. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.whatif.difference import Effected
from multiqueue.whatif.outcome import ReplayedWorkload
from multiqueue.whatif.snapshot import Snapshot
from multiqueue.whatif.trial import LEFT_OUT, TriedChanges

Json = dict[str, Any]


def tried_to_dict(
    snapshot: Snapshot, tried: TriedChanges, rows: Sequence[Effected] | None = None
) -> Json:
    """Return the document of a what-if.

    Args:
        snapshot: What it was tried on.
        tried: The result.
        rows: The Workloads to tell about; by default all for which the worlds differ.
    """
    told = tried.difference.effected if rows is None else rows
    sums = tried.difference.sums
    return {
        **describe_snapshot(snapshot),
        "problem": tried.after.problem,
        "gpusBeyondWorkers": tried.after.gpus_beyond_workers,
        "changes": list(tried.changes),
        "workloads": [
            {
                "effect": str(each.effect),
                "before": workload_to_dict(each.before, snapshot) if each.before else None,
                "after": workload_to_dict(each.after, snapshot) if each.after else None,
            }
            for each in told
        ],
        "sums": {
            "starts": sums.starts,
            "stopped": sums.stopped,
            "longer": sums.longer,
            "never": sums.never,
            "gpuHoursLost": sums.gpu_hours_lost,
            "gpusIdle": {"before": sums.gpus_idle_before, "after": sums.gpus_idle_after},
            "gpusBorrowed": {
                "before": sums.gpus_borrowed_before,
                "after": sums.gpus_borrowed_after,
            },
        },
        "leftOut": list(LEFT_OUT),
    }


def workload_to_dict(row: ReplayedWorkload, snapshot: Snapshot) -> Json:
    """Return a Workload of a replay."""
    stop = row.stop
    return {
        "workload": row.key,
        "job": row.job,
        "localQueue": row.queue,
        "clusterQueue": row.cluster_queue,
        "priority": row.priority,
        "gpus": row.gpus,
        "ageSeconds": int((snapshot.taken_at - row.created_at).total_seconds()),
        "fate": str(row.fate),
        "order": row.order,
        "position": row.position,
        "flavors": list(row.flavors),
        "borrows": row.borrows,
        "worker": row.worker,
        "reason": row.reason,
        "why": row.why,
        "refusal": row.refusal,
        "stoppedBy": None
        if stop is None
        else {
            "workload": stop.by,
            "reason": stop.reason,
            "message": stop.message,
            "lostSeconds": int(stop.lost_seconds),
            "noticeSeconds": stop.notice_seconds,
        },
    }


def describe_snapshot(snapshot: Snapshot) -> Json:
    """Return when and by what a snapshot was taken, and what it lacks."""
    return {
        "time": format_time(snapshot.taken_at),
        "program": snapshot.program,
        "notes": list(snapshot.notes),
    }
