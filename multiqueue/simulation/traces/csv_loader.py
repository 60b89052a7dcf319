"""Read real traces of Helios and Acme.

The files are ``cluster_log.csv`` of Helios, and ``trace_seren.csv`` and ``trace_kalos.csv`` of
Acme. Each line is a job: its owner, its number of GPUs, its submission, its runtime. Jobs without
GPUs, jobs that never ran, and gangs that no cluster of the fleet could hold are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from multiqueue.simulation.agenda import BEGIN
from multiqueue.simulation.traces.trace import Trace, TraceJob, in_order

NEEDED = ("job_id", "user", "gpu_num", "submit_time", "duration")
KINDS = {
    "pretrain": "pretraining",
    "pretraining": "pretraining",
    "evaluation": "evaluation",
    "eval": "evaluation",
    "sft": "finetuning",
    "rlhf": "finetuning",
    "debug": "debug",
}
"""Values of Acme's column ``type``; all others are training."""
OTHERS = "others"
TRIAL_SECONDS = 300.0
LARGE = 32

Row = Mapping[str, str | None]


class TraceError(ValueError):
    """A file is not a valid trace; the text names file, line and column."""


def load_csv(path: Path, *, skip: int, count: int, teams: int, largest: int) -> Trace:
    """Read some jobs of a file.

    Args:
        path: The file.
        skip: Number of jobs to skip, to read a later part of the file.
        count: Most jobs to read.
        teams: Number of teams, from virtual clusters (Helios) or users (Acme); the smallest ones
            are merged.
        largest: GPUs of the largest gang that can run.

    Raises:
        TraceError: The file cannot be read, or has no usable job.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            jobs, left_out = _take(_read(path, csv.DictReader(file)), skip, count, largest)
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f'trace "{path}" cannot be read: {error}') from error
    except csv.Error as error:
        raise TraceError(f'trace "{path}" is no CSV file: {error}') from error
    if not jobs:
        raise TraceError(
            f'trace "{path}" has no job with GPUs that ran and fits {largest} GPUs, '
            f"after the first {skip}"
        )
    notes = [f"{len(jobs)} jobs of {path.name}, after the first {skip}"]
    if left_out:
        notes.append(
            f"{left_out} gangs of more than {largest} GPUs left out: no cluster holds them"
        )
    ordered = in_order(jobs)
    begun = ordered[0].submit
    return Trace(
        name=path.name,
        jobs=tuple(replace(job, submit=job.submit - begun) for job in _merge_teams(ordered, teams)),
        notes=tuple(notes),
    )


def _read(path: Path, rows: csv.DictReader[str]) -> Iterator[TraceJob]:
    columns = rows.fieldnames or ()
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise TraceError(
            f'trace "{path}" has no column {", ".join(missing)}; it has '
            f"{', '.join(columns) or 'none'}. Expected is cluster_log.csv of Helios or "
            "trace_*.csv of Acme"
        )
    for row in rows:
        where = f'trace "{path}", line {rows.line_num}'
        gpus = _number(row, "gpu_num", where)
        duration = _number(row, "duration", where)
        if gpus < 1 or duration <= 0:
            continue
        yield TraceJob(
            name=f"job-{row['job_id']}",
            team=row.get("vc") or row["user"] or "unknown",
            user=row["user"] or "",
            kind=_kind(row, int(gpus), duration),
            gpus=int(gpus),
            submit=_moment(row, "submit_time", where),
            duration=duration,
        )


def _take(
    found: Iterator[TraceJob], skip: int, count: int, largest: int
) -> tuple[list[TraceJob], int]:
    jobs: list[TraceJob] = []
    names: set[str] = set()
    left_out = seen = 0
    for job in found:
        if job.gpus > largest:
            left_out += 1
            continue
        seen += 1
        if seen <= skip or job.name in names:
            continue
        names.add(job.name)
        jobs.append(job)
        if len(jobs) >= count:
            break
    return jobs, left_out


def _merge_teams(jobs: Sequence[TraceJob], teams: int) -> list[TraceJob]:
    """Keep the teams with the most work, and merge the others."""
    work: dict[str, float] = {}
    for job in jobs:
        work[job.team] = work.get(job.team, 0.0) + job.work
    ranked = sorted(work, key=lambda team: (-work[team], team))
    kept = set(ranked if len(ranked) <= teams else ranked[: teams - 1])
    return [job if job.team in kept else replace(job, team=OTHERS) for job in jobs]


def _kind(row: Row, gpus: int, duration: float) -> str:
    told = (row.get("type") or "").strip().lower()
    if told:
        return KINDS.get(told, "training")
    if duration < TRIAL_SECONDS and gpus <= 8:
        return "debug"
    return "pretraining" if gpus >= LARGE else "training"


def _number(row: Row, column: str, where: str) -> float:
    text = (row.get(column) or "").strip()
    try:
        return float(text) if text else 0.0
    except ValueError:
        raise TraceError(f'{where}, column "{column}": "{text}" is no number') from None


def _moment(row: Row, column: str, where: str) -> float:
    text = (row.get(column) or "").strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise TraceError(
            f'{where}, column "{column}": "{text}" is no time such as 2020-04-01 12:30:00'
        ) from None
    known = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (known - BEGIN).total_seconds()
