"""The page Usage: what is asked for, and what a reader with few rights gets."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from multiqueue.api.v1alpha1 import UsageReport, UsageReportRow, UsageReportStatus
from multiqueue.api.v1beta2 import ObjectMeta
from multiqueue.dashboard.usage import MonthlyUsage, read_question
from multiqueue.kube.client import KubeClient, ObjectList
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import USAGE_REPORTS, WORKLOADS, Resource
from tests.builders.workloads import admitted, make_workload

GPU = "nvidia.com/gpu"
NOW = datetime(2026, 1, 20, tzinfo=UTC)
ROW = UsageReportRow(
    day="2026-01-05",
    local_queue="lq",
    cluster_queue="cq",
    owner="vision",
    worker="a100",
    flavor="a100",
    resource=GPU,
    holds=2,
    reserved_seconds=7200,
    running_seconds=7000,
    lost_seconds=3000,
)


def make_report(
    *rows: UsageReportRow, namespace: str = "a", name: str = "2026-01", gap: int = 0
) -> UsageReport:
    status = UsageReportStatus(rows=rows, through="2026-01-19T00:00:00Z", gap_seconds=gap)
    return UsageReport(metadata=ObjectMeta(name=name, namespace=namespace), status=status)


class PlayedCluster:
    """A client of a cluster with some objects; the reader may list in `allowed`, None: in all."""

    def __init__(self, *reports: UsageReport, allowed: set[str] | None = None) -> None:
        self.objects: dict[Resource, list[Any]] = {USAGE_REPORTS: list(reports)}
        self.allowed = allowed

    async def list(
        self, resource: Resource, *, namespace: str | None = None, **_: Any
    ) -> ObjectList[Any]:
        if self.allowed is not None and namespace not in self.allowed:
            raise Forbidden(403, message=f"{resource.plural} is forbidden")
        found = self.objects.get(resource, [])
        if namespace is not None:
            found = [each for each in found if each.metadata.namespace == namespace]
        return ObjectList(items=found, resource_version="1")


async def read(client: PlayedCluster, namespace: str = "", **query: str) -> MonthlyUsage:
    usage = MonthlyUsage(read_question(query, NOW), NOW)
    await usage.read(cast("KubeClient", client), namespace)
    return usage


async def test_a_month_is_added_up_in_all_and_by_day() -> None:
    later = msgspec.structs.replace(ROW, day="2026-01-06", owner="speech")
    usage = await read(PlayedCluster(make_report(ROW, later), make_report(ROW, namespace="b")))
    told = usage.describe()
    assert told["total"]["reserved_s"] == 3 * 7200
    assert [(row["owner"], row["reserved_s"]) for row in told["rows"]] == [
        ("vision", 14400),
        ("speech", 7200),
    ]
    assert {(row["day"], row["owner"]) for row in told["byDay"]} == {
        ("2026-01-05", "vision"),
        ("2026-01-06", "speech"),
    }
    assert (told["days"], told["to"]) == (31, "2026-01-20T00:00:00Z")


async def test_what_is_too_much_for_a_page_is_added_up() -> None:
    owners = [f"team-{place:03}" for place in range(203)]
    rows = [
        msgspec.structs.replace(ROW, owner=owner, reserved_seconds=1000 - place)
        for place, owner in enumerate(owners)
    ]
    others = [msgspec.structs.replace(ROW, resource=f"r-{number:02}") for number in range(60)]
    usage = await read(PlayedCluster(make_report(*rows, *others)))
    told = usage.describe()
    assert [row["owner"] for row in told["rows"]] == owners[:200]
    assert told["more"]["rows"] == 3
    assert told["more"]["reserved_s"] == 800 + 799 + 798
    assert [row["owner"] for row in told["byDay"]] == [*owners[:20], None]
    assert told["byDay"][-1]["reserved_s"] == sum(1000 - place for place in range(20, 203))
    assert (told["resources"][0], len(told["resources"])) == (GPU, 50)
    assert usage.as_csv().count("team-") == 203
    assert (await read(PlayedCluster(make_report(ROW)))).describe()["more"] is None


async def test_another_month_does_not_count_and_gaps_are_those_of_the_month() -> None:
    december = msgspec.structs.replace(ROW, day="2025-12-31")
    client = PlayedCluster(make_report(ROW), make_report(december, name="2025-12", gap=900))
    told = (await read(client, month="2025-12")).describe()
    assert [row["day"] for row in told["byDay"]] == ["2025-12-31"]
    assert (told["gapSeconds"], told["to"]) == (900, "2026-01-01T00:00:00Z")
    assert told["months"] == ["2026-01", "2025-12"]
    assert (await read(client)).describe()["gapSeconds"] == 0


async def test_accelerators_come_before_cores_and_another_resource_can_be_asked_for() -> None:
    cores = msgspec.structs.replace(ROW, resource="cpu", reserved_seconds=10**6)
    client = PlayedCluster(make_report(ROW, cores))
    told = (await read(client)).describe()
    assert (told["resource"], told["resources"]) == (GPU, [GPU, "cpu"])
    assert (await read(client, resource="cpu")).describe()["total"]["reserved_s"] == 10**6


async def test_workloads_tell_what_reports_do_not_have_yet() -> None:
    client = PlayedCluster()
    client.objects[WORKLOADS] = [admitted(make_workload())]
    told = (await read(client)).describe()
    assert told["through"] is None
    assert told["total"]["reserved_s"] > 0


async def test_a_reader_of_one_namespace_sees_that_one_and_is_told_so() -> None:
    reports = make_report(ROW), make_report(ROW, namespace="b")
    told = (await read(PlayedCluster(*reports, allowed={"b"}), "b", by="namespace")).describe()
    assert [row["namespace"] for row in told["rows"]] == ["b"]
    assert told["namespace"] == "b"


async def test_a_reader_without_rights_gets_the_refusal_of_the_api_server() -> None:
    for namespace in ("", "a"):
        with pytest.raises(Forbidden):
            await read(PlayedCluster(make_report(ROW), allowed=set()), namespace)


async def test_a_month_without_usage_is_empty_in_a_cluster_without_reports_too() -> None:
    client = PlayedCluster()
    told = (await read(client, month="2025-11")).describe()
    assert (told["rows"], told["byDay"], told["total"]) == ([], [], None)

    async def refuse(resource: Resource, **_: Any) -> ObjectList[Any]:
        if resource is USAGE_REPORTS:
            raise NotFound(404, message="the server does not serve usagereports")
        return ObjectList(items=[], resource_version="1")

    client.list = refuse  # type: ignore[method-assign,assignment]
    assert (await read(client)).describe()["rows"] == []


async def test_csv_has_all_resources_and_no_cell_computes_anything() -> None:
    evil = msgspec.structs.replace(ROW, owner='=HYPERLINK("x")', resource="cpu")
    usage = await read(PlayedCluster(make_report(ROW, evil)))
    rows = list(csv.DictReader(io.StringIO(usage.as_csv())))
    assert [(row["owner"], row["resource"]) for row in rows] == [
        ('\'=HYPERLINK("x")', "cpu"),
        ("vision", GPU),
    ]
    assert usage.file_name == "usage-2026-01-by-owner.csv"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"by": "pod"}, 'by: "pod" is not known; choose from owner'),
        ({"month": "yesterday"}, 'month: "yesterday" is no month; write 2026-01'),
        ({"month": "9999-12"}, "too late"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(query: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_question(query, NOW)
