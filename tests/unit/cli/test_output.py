"""How results are printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest
import yaml

from multiqueue.cli.output import format_table, print_data
from multiqueue.cli.views.ages import format_age, format_seconds


def test_columns_are_aligned_and_empty_cells_are_dashes() -> None:
    text = format_table(["NAME", "GPUS"], [["train", 8], ["x", None]])
    assert text == "NAME    GPUS\ntrain   8\nx       -"


def test_the_last_column_is_cut_to_the_width() -> None:
    text = format_table(["A", "WHY"], [["x", "y" * 50]], width=30)
    assert text.splitlines()[1] == "x   " + "y" * 25 + "…"


def test_line_breaks_do_not_break_rows() -> None:
    assert "one two" in format_table(["WHY"], [["one\ntwo"]])


def test_a_value_that_occurs_twice_is_written_twice(capsys: pytest.CaptureFixture[str]) -> None:
    same = {"cpu": 1}
    print_data({"a": same, "b": same}, "yaml")
    assert capsys.readouterr().out == "a:\n  cpu: 1\nb:\n  cpu: 1\n"


def test_no_rows_leave_the_titles() -> None:
    assert format_table(["A", "B"], []) == "A   B"


@pytest.mark.parametrize(("output", "load"), [("json", orjson.loads), ("yaml", yaml.safe_load)])
def test_data_is_printed_whole(output: str, load, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"jobs": [{"name": "ä", "gpus": 1, "worker": None}]}
    print_data(data, output)
    assert load(capsys.readouterr().out) == data


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 720, "3h12m"),
        (4 * 86400, "4d"),
    ],
)
def test_ages_have_few_letters(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_an_unknown_age_is_a_dash() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert format_age(None, now) == "-"
    assert format_age(now - timedelta(seconds=5), now) == "5s"
