"""What `multiqueue usage` adds up and prints."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import msgspec
import pytest

from multiqueue.api.config.types import UsagePrice
from multiqueue.api.v1alpha1 import UsageReport, UsageReportRow, UsageReportStatus
from multiqueue.api.v1beta2 import ObjectMeta
from multiqueue.cli.main import main
from multiqueue.cli.views.usage import describe_cost, list_table
from multiqueue.views.usage_prices import Prices
from multiqueue.views.usage_sums import add_up, collect, list_dicts, write_csv
from tests.builders.workloads import NAMESPACE, T0, admitted, make_workload, minutes

HOUR = 3600


def make_report(
    *rows: UsageReportRow, namespace: str = NAMESPACE, through: str = ""
) -> UsageReport:
    return UsageReport(
        metadata=ObjectMeta(name="2026-01", namespace=namespace),
        status=UsageReportStatus(rows=rows, through=through),
    )


ROW = UsageReportRow(
    day="2026-01-01",
    local_queue="lq",
    cluster_queue="cq",
    owner="vision",
    worker="a100",
    flavor="a100",
    resource="nvidia.com/gpu",
    holds=2,
    reserved_seconds=10 * HOUR,
    running_seconds=9 * HOUR,
    checks_seconds=HOUR,
    kept_seconds=9 * HOUR,
)


def test_a_report_goes_on_in_the_workloads_that_are_there() -> None:
    report = make_report(through="2026-01-01T00:10:00Z")
    rows, through = collect([report], [admitted(make_workload())], {}, since=T0, now=minutes(30))
    ((values, resource, figures),) = add_up(rows, ["namespace"])
    assert (values, resource, figures.reserved) == ((NAMESPACE,), "cpu", 20 * 60)
    assert through == minutes(10)


def test_days_before_the_period_do_not_count() -> None:
    rows, _ = collect([make_report(ROW)], [], {}, since=T0 + timedelta(days=1), now=minutes(3000))
    assert add_up(rows, ["owner"]) == []


def test_rows_are_added_up_by_what_is_asked_and_the_largest_comes_first() -> None:
    other = msgspec.structs.replace(
        ROW, owner="speech", reserved_seconds=20 * HOUR, cause="Reclaim"
    )
    reports = [make_report(ROW), make_report(ROW), make_report(other, namespace="b")]
    rows, _ = collect(reports, [], {}, since=T0, now=T0)
    by_owner = add_up(rows, ["owner", "cause"])
    titles, rows_, unit = list_table(by_owner, wide=True)
    assert (titles[1], titles[-1], unit) == ("RESERVED", "ENDED", "Hours")
    assert [" ".join(row) for row in rows_] == [
        "speech Reclaim nvidia.com/gpu 20.0 1.0 0.0 9.0 9.0 0.0 0.0 0.0 20.0 2",
        "vision - nvidia.com/gpu 20.0 2.0 0.0 18.0 18.0 0.0 0.0 0.0 20.0 4",
    ]
    assert len(list_table(by_owner)[0]) == 6


PRICES = Prices(
    [
        UsagePrice(flavor="a100", valid_from="2026-01-02", per_gpu_hour=3.0, currency="EUR"),
        UsagePrice(flavor="a100", valid_from="2026-01-01", per_gpu_hour=2.0, currency="EUR"),
        UsagePrice(flavor="h100", valid_from="2026-02-01", per_gpu_hour=9.0, currency="EUR"),
    ]
)


def test_each_day_has_its_price_and_hours_without_one_are_told() -> None:
    """S-163."""
    days = [msgspec.structs.replace(ROW, day=f"2026-01-0{day}") for day in (1, 2, 3)]
    early, cores = (
        msgspec.structs.replace(ROW, **change)
        for change in ({"flavor": "h100"}, {"resource": "cpu", "flavor": "cpu"})
    )
    rows, _ = collect([make_report(*days, early, cores)], [], {}, since=T0, now=T0)
    sums = add_up(rows, ["flavor", "day"], PRICES)
    told = {
        (each["flavor"], each["day"]): (each["cost"], each["currency"], each["unpriced_s"])
        for each in list_dicts(sums, ["flavor", "day"], PRICES)
    }
    assert told == {
        ("a100", "2026-01-01"): (20.0, "EUR", 0),
        ("a100", "2026-01-02"): (30.0, "EUR", 0),
        ("a100", "2026-01-03"): (30.0, "EUR", 0),
        ("h100", "2026-01-01"): (None, "", 10 * HOUR),
        ("cpu", "2026-01-01"): (None, "", 0),
    }
    titles, table, _ = list_table(sums, priced=True)
    assert (titles[-1], [row[-1] for row in table]) == (
        "COST",
        ["-", "20.00", "30.00", "30.00", "-"],
    )
    assert describe_cost(sums, "EUR") == (
        "COST is the price of what is charged: 80.00 EUR in all. 10.0 device-hours have no price."
    )
    total = list_dicts(add_up(rows, ["owner"], PRICES), ["owner"], PRICES)
    assert [(row["cost"], row["unpriced_s"]) for row in total] == [(None, 0), (80.0, 10 * HOUR)]
    text = write_csv(total, ["owner"], since=T0, now=T0, priced=True)
    assert next(iter(csv.DictReader(io.StringIO(text))))["cost"] == ""


def test_the_owner_who_is_charged_pays_the_price() -> None:
    lost = msgspec.structs.replace(
        ROW, lost_seconds=9 * HOUR, redone_seconds=4 * HOUR, paid_by="speech"
    )
    rows, _ = collect([make_report(lost)], [], {}, since=T0, now=T0)
    sums = add_up(rows, ["owner"], PRICES)
    assert {values: figures.cost for values, _, figures in sums} == {
        ("vision",): 12.0,
        ("speech",): 8.0,
    }


def test_csv_keeps_seconds_and_no_cell_computes_anything() -> None:
    """S-160."""
    evil = msgspec.structs.replace(ROW, owner='=HYPERLINK("x")')
    rows, _ = collect([make_report(evil)], [], {}, since=T0, now=T0)
    by = ["owner", "cluster"]
    text = write_csv(list_dicts(add_up(rows, by), by), by, since=T0, now=minutes(60))
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["owner"] == '\'=HYPERLINK("x")'
    assert (row["worker"], row["reserved_s"], row["from"]) == (
        "a100", "36000", "2026-01-01T00:00:00Z",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--by", "owner,colour"], '--by: "colour" is not known; choose from owner, namespace'),
        (["--since", "yesterday"], '--since: "yesterday" is no time; write 7d or 12h'),
        (["--since", "-3d"], "is no time"),
        (["--config", "x"], "--config: it is read for prices only; add --price"),
    ],
)
def test_a_wrong_option_is_named(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", *arguments]) == 2
    assert problem in capsys.readouterr().err
