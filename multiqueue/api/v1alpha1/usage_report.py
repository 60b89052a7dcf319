"""UsageReport: what the Workloads of a namespace held and ran in one month."""

from __future__ import annotations

from typing import Annotated

from multiqueue.api.markers import described
from multiqueue.api.v1beta2.meta import ObjectMeta, Struct

MAX_ROWS = 1000
"""Rows of one report, at most 250 KB; the month goes on in another object."""


class UsageReportRow(Struct, frozen=True, kw_only=True):
    """Device-seconds of one day: the number of devices times seconds."""

    day: Annotated[str, described("Day in UTC, as 2026-11-23.", required=True, maxLength=10)] = ""
    local_queue: Annotated[str, described("Name of the LocalQueue.", maxLength=253)] = ""
    cluster_queue: Annotated[str, described("Name of the ClusterQueue.", maxLength=253)] = ""
    owner: Annotated[
        str,
        described(
            "Label multiqueue.dev/owner of the namespace, else the namespace.", maxLength=253
        ),
    ] = ""
    worker: Annotated[
        str, described("Worker cluster; empty: this cluster, or not dispatched.", maxLength=253)
    ] = ""
    flavor: Annotated[str, described("Name of the ResourceFlavor.", maxLength=253)] = ""
    resource: Annotated[
        str, described("Resource, such as nvidia.com/gpu; cpu counts in cores.", maxLength=317)
    ] = ""
    cause: Annotated[
        str, described("Why Workloads were stopped; empty: they were not.", maxLength=63)
    ] = ""
    paid_by: Annotated[
        str,
        described(
            "Owner of the Workloads for which they were stopped, if a DisruptionPolicy tells what "
            "that costs.",
            maxLength=253,
        ),
    ] = ""
    holds: Annotated[int, described("Reservations of quota that ended.", minimum=0)] = 0
    reserved_seconds: Annotated[int, described("While quota was reserved.", minimum=0)] = 0
    checks_seconds: Annotated[
        int, described("Of these: until the Workload was admitted.", minimum=0)
    ] = 0
    starting_seconds: Annotated[
        int, described("Of these: from then until all pods were ready, if known.", minimum=0)
    ] = 0
    running_seconds: Annotated[int, described("Of these: the rest.", minimum=0)] = 0
    kept_seconds: Annotated[
        int, described("Of running, once the reservation ended: not lost or failed.", minimum=0)
    ] = 0
    lost_seconds: Annotated[
        int, described("Of running: of Workloads that were stopped.", minimum=0)
    ] = 0
    failed_seconds: Annotated[
        int, described("Of running: of Workloads that failed by themselves.", minimum=0)
    ] = 0
    redone_seconds: Annotated[
        int, described("Of lost: has to be done again, which paidBy is charged for.", minimum=0)
    ] = 0


class UsageReportStatus(Struct, frozen=True, kw_only=True):
    """The usage."""

    through: Annotated[str, described("Everything until this time is counted.", maxLength=64)] = ""
    gap_seconds: Annotated[
        int,
        described(
            "Time between a write and a later start of the manager. If no manager ran then, a "
            "reservation that ended then, and whose Workload is gone or queued again, counts only "
            "until that write.",
            minimum=0,
        ),
    ] = 0
    continued_in: Annotated[
        str, described("Name of the report in which the month goes on.", maxLength=63)
    ] = ""
    rows: Annotated[
        tuple[UsageReportRow, ...], described("The rows.", maxItems=MAX_ROWS, list_type="atomic")
    ] = ()
    recent_rows: Annotated[
        tuple[UsageReportRow, ...],
        described(
            "What reservations used after that time that have ended, if their Workload is gone or "
            "queued again. The next write that moves that time on counts it in rows.",
            maxItems=MAX_ROWS,
            list_type="atomic",
        ),
    ] = ()


class UsageReport(Struct, frozen=True, kw_only=True):
    """What the Workloads of a namespace held and ran in one month, which its name says."""

    metadata: ObjectMeta = ObjectMeta()
    status: Annotated[UsageReportStatus, described("The usage.")] = UsageReportStatus()
