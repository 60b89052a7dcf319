"""The tables that kubectl prints. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.model.resources import is_accelerator
from multiqueue.views.ages import format_age
from multiqueue.views.start import say_start_shortly
from multiqueue.visibility.fleet.resources import (
    CALIBRATIONS,
    CHANGES,
    QUOTAS,
    SHARES,
    STANDINGS,
    TOTALS,
    WORKERS,
)
from multiqueue.visibility.fleet.rows import FleetRow

Json = dict[str, Any]
Cell = Callable[[FleetRow, datetime], object]


class PrintedColumn(NamedTuple):
    """A column of a table; a wide one is shown with ``-o wide`` only."""

    name: str
    cell: Cell
    type_: str = "string"
    format_: str = ""
    wide: bool = False


def _field(name: str) -> Cell:
    return lambda row, _: "" if row.status[name] is None else row.status[name]


def _age(name: str) -> Cell:
    """Return how long ago a time is, as kubectl shows ages."""

    def cell(row: FleetRow, now: datetime) -> str:
        at = parse_time(row.status[name])
        return "" if at is None else format_age(at, now)

    return cell


def _joined(label: str) -> Cell:
    """Return an amount of each accelerator flavor, such as ``4 a100, 2 h100``."""

    def cell(row: FleetRow, _: datetime) -> str:
        return ", ".join(
            f"{each[label]} {each['flavor']}"
            for each in row.status["quotas"]
            if is_accelerator(each["resource"])
        )

    return cell


def _name(row: FleetRow, _: datetime) -> str:
    return str(row.metadata["name"])


def _worker(row: FleetRow, _: datetime) -> str:
    return row.status["worker"] or ",".join(row.status["offeredTo"])


def _start(row: FleetRow, now: datetime) -> str:
    return say_start_shortly(row.status["start"], now)


def _use(row: FleetRow, _: datetime) -> str:
    return str(row.status["use"]["state"])


def _changed(row: FleetRow, _: datetime) -> str:
    fields = row.status["fields"]
    return "; ".join(f"{each['path']}: {each['from']} -> {each['to']}" for each in fields)


NAME = PrintedColumn("Name", _name, format_="name")
PHASE = PrintedColumn("Phase", _field("phase"))
COLUMNS: Mapping[str, tuple[PrintedColumn, ...]] = {
    STANDINGS.plural: (
        NAME,
        PrintedColumn("Job", _field("job")),
        PHASE,
        PrintedColumn("Worker", _worker),
        PrintedColumn("Position", _field("position")),
        PrintedColumn("Start", _start),
        PrintedColumn("GPUs", _field("gpus"), "integer"),
        PrintedColumn("Age", _age("created")),
        PrintedColumn("Queue", _field("localQueue"), wide=True),
        PrintedColumn("Team", _field("team"), wide=True),
        PrintedColumn("Priority", _field("priority"), "integer", wide=True),
        PrintedColumn("Why", _field("why"), wide=True),
    ),
    QUOTAS.plural: (
        NAME,
        PrintedColumn("Cohort", _field("cohort")),
        PrintedColumn("Active", _field("active")),
        PrintedColumn("Pending", _field("pending"), "integer"),
        PrintedColumn("Reserving", _field("reserving"), "integer"),
        PrintedColumn("Used", _joined("used")),
        PrintedColumn("Nominal", _joined("nominal")),
        PrintedColumn("Borrowed", _joined("borrowed"), wide=True),
        PrintedColumn("Lent", _joined("lent"), wide=True),
        PrintedColumn("Why", _field("why"), wide=True),
    ),
    WORKERS.plural: (
        NAME,
        PrintedColumn("Connected", _field("connected")),
        PrintedColumn("Use", _use),
        PrintedColumn("GPUs", _field("gpus")),
        PrintedColumn("Used", _field("used")),
        PrintedColumn("Free", _field("free")),
        PrintedColumn("Running", _field("running"), "integer"),
        PrintedColumn("Waiting", _field("waiting"), "integer"),
        PrintedColumn("Health", _field("health")),
        PrintedColumn("Why", _field("why"), wide=True),
    ),
    TOTALS.plural: (
        NAME,
        PrintedColumn("GPUs", _field("gpus"), "integer"),
        PrintedColumn("Used", _field("used"), "integer"),
        PrintedColumn("Borrowed", _field("borrowed"), "integer"),
        PrintedColumn("Free", _field("free"), "integer"),
        PrintedColumn("Waiting", _field("waiting"), "integer"),
        PrintedColumn("Waiting GPUs", _field("waitingGpus"), "integer"),
        PrintedColumn("Oldest", _age("oldest")),
    ),
    SHARES.plural: (
        NAME,
        PrintedColumn("Cohort", _field("cohort")),
        PrintedColumn("Weight", _field("weight"), "number"),
        PrintedColumn("Share", _field("share")),
        PrintedColumn("Rank", _field("rank")),
        PrintedColumn("Waiting", _field("waiting"), "integer"),
    ),
    CHANGES.plural: (
        NAME,
        PrintedColumn("Age", _age("at")),
        PrintedColumn("Kind", _field("kind")),
        PrintedColumn("Object", _field("object")),
        PrintedColumn("Action", _field("action")),
        PrintedColumn("Fields", _changed),
    ),
    CALIBRATIONS.plural: (
        NAME,
        PrintedColumn("Judged", _field("judged"), "integer"),
        PrintedColumn("Early", _field("early"), "integer"),
        PrintedColumn("Inside", _field("inside"), "integer"),
        PrintedColumn("Late", _field("late"), "integer"),
    ),
}


def print_table(
    plural: str, rows: Sequence[FleetRow], version: str, *, now: datetime, metadata: Json
) -> Json:
    """Return rows as a Table in a version of meta.k8s.io.

    Args:
        plural: The resource.
        rows: The rows.
        version: ``v1`` or ``v1beta1``.
        now: The current time, for times to come.
        metadata: The metadata of the list.
    """
    columns = COLUMNS[plural]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.type_,
                "format": column.format_,
                "description": "",
                "priority": int(column.wide),
            }
            for column in columns
        ],
        "rows": [
            {
                "cells": [column.cell(row, now) for column in columns],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": f"meta.k8s.io/{version}",
                    "metadata": row.metadata,
                },
            }
            for row in rows
        ],
    }
