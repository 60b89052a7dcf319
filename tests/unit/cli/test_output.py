"""How results are printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest
import yaml

from multiqueue.cli.output import format_table, print_data
from multiqueue.views.ages import format_age, format_seconds


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


class TestNarrowTerminals:
    def test_columns_leave_by_rank_and_never_the_first_or_the_last(self) -> None:
        titles = ["AGE", "WORKLOAD", "JOB", "PRIORITY", "RAN"]
        row = ["3h", "team/job-train-5f8a2", "Job/train", "1000", "12s"]
        text = format_table(titles, [row], width=40)
        assert text.splitlines()[0].split() == ["AGE", "JOB", "RAN"]

    def test_what_a_row_is_about_stays(self) -> None:
        text = format_table(["TIME", "WORKLOAD", "NOW"], [["10:14", "w" * 40, "a"]], width=30)
        assert text.splitlines()[1] == "10:14   wwwwwwwwwwwwwww…   a"

    def test_the_widest_gives_way_and_short_cells_stay_whole(self) -> None:
        row = ["frankfurt-1", "connected", "y" * 60]
        text = format_table(["WORKER", "IS", "WHY"], [row], width=50)
        assert text.splitlines()[1] == f"frankfurt-1   connected   {'y' * 23}…"

    def test_colours_take_no_room(self) -> None:
        row = ["x", "\x1b[32mRunning\x1b[0m", "why"]
        assert format_table(["A", "PHASE", "WHY"], [row], width=21) == (
            "A   PHASE     WHY\nx   \x1b[32mRunning\x1b[0m   why"
        )
