"""What ``multiqueue clusters show`` says about one worker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.views.ages import format_age
from multiqueue.views.phase import ENDED

Json = dict[str, Any]

FLAVOR_HEADERS = ("FLAVOR", "RESOURCE", "GPUS", "USED", "FREE")
JOB_HEADERS = ("JOB", "NAMESPACE", "GPUS", "QUEUE", "PHASE", "SINCE", "WHY")


def describe_worker(name: str, worker: Json, now: datetime) -> Iterator[str]:
    """Yield the facts of a worker's row, one a line.

    Args:
        name: The worker.
        worker: The fields of its row, see `multiqueue.views.workers`.
        now: The time, for ages.
    """
    word = "connected" if worker["connected"] else "out of reach"
    since = parse_time(worker["since"])
    yield f"{name}: {word}" + (f" for {format_age(since, now)}" if since is not None else "")
    use = worker["use"]
    told = ": ".join(filter(None, (use["reason"], use["message"])))
    state = "in use" if use["state"] == "InUse" else use["state"].lower()
    yield f"use: {state}" + (f" ({told})" if told else "")
    known = worker["health"] is not None
    yield f"health: {worker['health']:.0%}" if known else "health: not known"
    if worker["gpus"] is None:
        yield "GPUs: not known"
    else:
        yield f"GPUs: {worker['used']} of {worker['gpus']} in use, {worker['free']} free"
    for text in filter(None, (worker["why"], worker["trouble"], *worker["warnings"])):
        yield f"warning: {text}"


def list_flavor_rows(worker: Json) -> list[list[Any]]:
    """Return a row for each flavor and accelerator of a worker."""
    titles = ("flavor", "resource", "total", "used", "free")
    return [[each[title] for title in titles] for each in worker["flavors"]]


def split_jobs(standings: Iterable[Json], worker: str) -> tuple[list[Json], list[Json]]:
    """Return the standings of Workloads that are on a worker, and of those offered to it."""
    there, offered = [], []
    for each in {each["metadata"]["uid"]: each for each in standings}.values():
        status = each["status"]
        if status["phase"] in ENDED:
            continue
        if status["worker"] == worker:
            there.append(each)
        elif not status["worker"] and worker in status["offeredTo"]:
            offered.append(each)
    return there, offered


def list_job_rows(standings: Iterable[Json], now: datetime) -> list[list[Any]]:
    """Return a row for each standing."""
    return [
        [
            each["status"]["job"],
            each["metadata"]["namespace"],
            each["status"]["gpus"],
            each["status"]["localQueue"],
            each["status"]["words"],
            format_age(parse_time(each["status"]["since"]), now),
            each["status"]["why"],
        ]
        for each in standings
    ]
