"""UsageReports say what each namespace used, exactly, whoever led meanwhile (S-154 to S-156)."""

from __future__ import annotations

import asyncio
import csv
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import ANY

import pytest

from multiqueue.api.names import OWNER
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1alpha1 import UsageReport, UsageReportRow, UsageReportStatus
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.controllers.usage_reports import RECENT_SECONDS, UsageReports
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.views.usage import UsageFigures, read_rows
from multiqueue.views.usage_sums import add_up, collect, list_dicts
from multiqueue.workers.kubeconfigs.stored import CONFIG_KEY, CONFIG_MAP
from tests.builders.jobs import make_job
from tests.builders.queues import make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import complete, create_queue, running, submit
from tests.integration.test_cli_commands import UserShell, logs_are_not_output
from tests.integration.test_cli_diagnose import strict_queue
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import SteppingClock, loop_clock, virtual_time

__all__ = ["logs_are_not_output"]


async def list_names(cluster: QueueCluster) -> list[str]:
    listed = await cluster.client.list(resources.USAGE_REPORTS, namespace=NAMESPACE)
    return sorted(each["metadata"]["name"] for each in listed.items)


async def sum_up(cluster: QueueCluster, *names: str) -> UsageFigures:
    """Add up some reports of the namespace; all without names."""
    figures = UsageFigures()
    listed = await cluster.client.list(resources.USAGE_REPORTS, namespace=NAMESPACE)
    for each in listed.items:
        if names and each["metadata"]["name"] not in names:
            continue
        for row in read_rows(decode(UsageReport, each).status.rows).values():
            figures.add(row)
    return figures


async def run_one(cluster: QueueCluster, name: str, seconds: float) -> None:
    await submit(cluster, make_job(name, cpu="4"))
    await run_submitted(cluster, name, seconds)


async def run_submitted(cluster: QueueCluster, name: str, seconds: float) -> None:
    await cluster.changes.until(lambda: running(cluster, name), f"{name} runs")
    await asyncio.sleep(seconds)
    await complete(cluster, name)


@virtual_time
async def test_a_report_says_what_was_used_and_by_whom() -> None:
    async with queue_cluster() as cluster:
        owner = {"metadata": {"labels": {"multiqueue.dev/owner": "vision"}}}
        await cluster.client.patch(resources.NAMESPACES, NAMESPACE, owner)
        async with cluster.manager():
            await create_queue(cluster)
            await run_one(cluster, "train", 1200)
            await asyncio.sleep(600)
            found = await cluster.client.list(resources.USAGE_REPORTS, namespace=NAMESPACE)
            (report,) = (decode(UsageReport, each) for each in found.items)
            (row,) = report.status.rows
            assert (row.owner, row.local_queue, row.cluster_queue) == ("vision", "lq", "cq")
            assert (row.flavor, row.resource, row.holds) == ("default", "cpu", 1)
            assert 4 * 1200 <= row.reserved_seconds <= 4 * 1203
            assert row.kept_seconds == row.running_seconds
            assert report.status.gap_seconds == 0


@virtual_time
async def test_nothing_counts_twice_or_is_forgotten_however_often_managers_change() -> None:
    async with queue_cluster() as cluster:
        async with cluster.manager():
            await create_queue(cluster)
            await submit(cluster, make_job("train", cpu="4"))
            await cluster.changes.until(lambda: running(cluster, "train"), "it runs")
        for pause in (10, 290, 310, 700, 5, 301):
            async with cluster.manager():
                await asyncio.sleep(pause)
        await complete(cluster, "train")
        async with cluster.manager():
            await asyncio.sleep(900)
        figures = await sum_up(cluster)
        workload = cluster.workload_of("train")
        assert workload is not None
        times = {c.type: c.last_transition_time for c in workload.status.conditions}
        begun, ended = (seconds_of(times[type_]) for type_ in ("QuotaReserved", "Finished"))
        assert figures.reserved == 4 * (ended - begun) > 4 * 1600
        assert figures.kept == figures.running
        assert figures.holds == 1


async def read_reserved(cluster: QueueCluster) -> int:
    """What a reader would see reserved at this moment, from reports and Workloads."""
    reports = await cluster.client.list(resources.USAGE_REPORTS)
    workloads = await cluster.client.list(resources.WORKLOADS)
    rows, _ = collect(
        [decode(UsageReport, each) for each in reports.items],
        [decode(Workload, each) for each in workloads.items],
        {},
        since=datetime(2020, 1, 1, tzinfo=UTC),
        now=loop_clock().now().replace(microsecond=0),
    )
    return sum(row["reserved_s"] for row in list_dicts(add_up(rows, []), []))


@virtual_time
async def test_what_deleted_jobs_reserved_does_not_fall_before_the_next_report() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        seen = [0]
        for number in range(12):
            name = f"train-{number}"
            await submit(cluster, make_job(name, cpu="4"))
            await cluster.changes.until(lambda name=name: running(cluster, name), f"{name} runs")
            await asyncio.sleep(40)
            if number % 3:
                await complete(cluster, name)
            seen.append(await read_reserved(cluster))
            await cluster.client.delete(
                resources.JOBS, name, namespace=NAMESPACE, propagation="Background"
            )
            await cluster.changes.until(lambda name=name: cluster.workload_of(name) is None)
            await asyncio.sleep(RECENT_SECONDS + 3)
            seen.append(await read_reserved(cluster))
        assert seen == sorted(seen)
        assert 4 * 12 * 40 <= seen[-1] <= 4 * 12 * 46
        await asyncio.sleep(900)
        assert await read_reserved(cluster) == seen[-1]
        (report,) = (await cluster.client.list(resources.USAGE_REPORTS)).items
        assert not report["status"].get("recentRows")


@virtual_time
async def test_an_idle_namespace_costs_no_write() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await run_one(cluster, "train", 60)
        await asyncio.sleep(900)
        before = len(cluster.writes)
        await asyncio.sleep(3600)
        assert len(cluster.writes) == before


@virtual_time
async def test_each_month_has_its_own_report_and_old_ones_go() -> None:
    clock = SteppingClock(datetime(2026, 10, 31, 23, 50, tzinfo=UTC))
    async with queue_cluster() as cluster, cluster.manager(clock=clock):
        await create_queue(cluster)
        await submit(cluster, make_job("train", cpu="4"))
        await cluster.changes.until(lambda: running(cluster, "train"), "it runs")
        await asyncio.sleep(400)
        clock.step(timedelta(hours=2))
        await asyncio.sleep(400)
        assert await list_names(cluster) == ["2026-10", "2026-11"]
        october = await sum_up(cluster, "2026-10")
        assert 4 * 590 <= october.reserved <= 4 * 600
        assert (await sum_up(cluster)).reserved > 4 * 7200
        clock.step(timedelta(days=92))
        await asyncio.sleep(400)
        assert "2026-10" not in await list_names(cluster)


@virtual_time
async def test_a_month_with_many_rows_goes_on_in_another_report() -> None:
    async with queue_cluster() as cluster, cluster.manager() as context:
        reports = UsageReports(context, most_rows=1)
        await create_queue(cluster)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue("other"))
        for number, queue in enumerate(("lq", "other", "lq")):
            await submit(cluster, make_job(f"train-{number}", queue=queue, cpu="4"))
            await run_submitted(cluster, f"train-{number}", 30)
            await asyncio.sleep(45)
            await reports.write()
        names = await list_names(cluster)
        assert names == [names[0], f"{names[0]}-2", f"{names[0]}-3"]
        assert (await sum_up(cluster)).holds == 3


async def test_the_command_reads_reports_and_workloads_with_the_rights_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with strict_queue(tmp_path, capsys) as (shell, client, _):
        await create_report(client)
        found = await shell.json("usage", "--by", "namespace,owner")
        by_namespace = {each["namespace"]: each for each in found["rows"]}
        assert by_namespace["rivals"]["reserved_s"] == 7200
        assert "vision" in await shell.run("usage")
        assert "vision" not in await shell.run("usage", "-n", "team")
        assert (await shell.run("usage", "-o", "csv")).startswith("from,to,owner,resource,holds,")
        assert "name a file with --config" in await shell.refusal("usage", "--price")
        price = "{flavor: a100, from: 2020-01-01, perGpuHour: 3}"
        head = {"apiVersion": "v1", "kind": "ConfigMap"}
        place = {"name": CONFIG_MAP, "namespace": "kueue-system"}
        data = {CONFIG_KEY: f"usage: {{prices: [{price}]}}"}
        await client.create(resources.CONFIG_MAPS, {**head, "metadata": place, "data": data})
        assert "6.00 in all" in await shell.run("usage", "--price")


async def test_namespaces_of_one_owner_are_one_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P-121: the label of the namespace, else its name; an empty label is none."""
    async with strict_queue(tmp_path, capsys) as (shell, client, _):
        await create_report(client)
        await asyncio.sleep(1)  # a hold of less than a second is no row
        assert await by_owner(shell) == {"vision": "7200", "team": ANY}
        assert "Owner:" not in await shell.run("why", "runs", "-n", "team")
        labels = {"metadata": {"labels": {OWNER: "vision"}}}
        await client.patch(resources.NAMESPACES, "team", labels)
        (reserved,) = (await by_owner(shell)).values()
        assert int(reserved) > 7200
        assert "Owner:  vision" in await shell.run("why", "runs", "-n", "team")
        assert (await shell.json("why", "runs", "-n", "team"))["owner"] == "vision"
        labels["metadata"]["labels"][OWNER] = ""
        await client.patch(resources.NAMESPACES, "team", labels)
        assert await by_owner(shell) == {"vision": "7200", "team": ANY}


async def by_owner(shell: UserShell) -> dict[str, str]:
    """Return the reserved seconds of each owner."""
    rows = csv.DictReader(io.StringIO(await shell.run("usage", "--by", "owner", "-o", "csv")))
    return {row["owner"]: row["reserved_s"] for row in rows}


async def create_report(client: KubeClient) -> None:
    """Create the report of a namespace that used two GPU-hours."""
    row = UsageReportRow(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        owner="vision",
        cluster_queue="strict",
        flavor="a100",
        resource="nvidia.com/gpu",
        reserved_seconds=7200,
    )
    head = {"apiVersion": "multiqueue.dev/v1alpha1", "kind": "UsageReport"}
    report = {**head, "metadata": {"name": "2026-01", "namespace": "rivals"}}
    await client.create(resources.USAGE_REPORTS, report, namespace="rivals")
    status = {"status": encode(UsageReportStatus(rows=(row,)))}
    await client.patch(
        resources.USAGE_REPORTS, "2026-01", status, namespace="rivals", subresource="status"
    )


def seconds_of(text: str) -> float:
    moment = parse_time(text)
    assert moment is not None
    return moment.timestamp()
