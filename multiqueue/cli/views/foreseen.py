"""When a job would start that is not submitted, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.cli.output import echo
from multiqueue.cli.views.start import list_start_lines

STOPPED = ("is stopped", "is stopped, starts again")


def show_foreseen(status: Mapping[str, Any]) -> None:
    """Print the answer to a what-if of one job."""
    job = status["job"]
    namespace = job["workload"].partition("/")[0]
    echo(f"{job['job']} in namespace {namespace}, not submitted")
    gpus = f"{job['gpus']} GPU{'s' if job['gpus'] != 1 else ''}"
    echo(f"  Queue:  {job['localQueue']} (ClusterQueue {job['clusterQueue']}), {gpus}")
    if job["order"]:
        quota = f"flavor {', '.join(job['flavors'])}" + (", borrowed" if job["borrows"] else "")
        names, hidden = list_stopped(status)
        count = len(names) + hidden
        after = f" once {count} job{'s have' if count != 1 else ' has'} stopped" if count else ""
        echo(f"  Start:  now{after}, {quota}")
        if names:
            others = f" and {hidden} of other namespaces" if hidden else ""
            echo(f"  Stops:  {', '.join(names)}{others}")
    else:
        place = f"place {job['position']} in the ClusterQueue" if job["position"] else "no place"
        lines = list_start_lines(job["start"]) if job["start"] else ["Start:  not known"]
        for line in lines:
            echo(f"  {line}")
        why = "; ".join(filter(None, (job["why"], job.get("refusal"))))
        echo(f"  Waits:  {place}: {why}")
    if status["problem"]:
        echo(f"warning: {status['problem']}")


def list_stopped(status: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return the jobs that are stopped, and how many there are without a name."""
    rows = [row["after"] for row in status["workloads"] if row["effect"] in STOPPED]
    names = [f"{row['workload'].partition('/')[0]}/{row['job'].partition('/')[2]}" for row in rows]
    return names, sum(status["others"].get(effect, 0) for effect in STOPPED)
