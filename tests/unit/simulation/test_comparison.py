from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from multiqueue.cli.main import main
from multiqueue.simulation.compare import Comparison, Contestant, Plan, compare
from multiqueue.simulation.fleet import make_fleet
from multiqueue.simulation.metrics import METRICS
from multiqueue.simulation.report.document import format_csv
from multiqueue.simulation.report.page import build_page
from multiqueue.simulation.report.svg import round_ticks, time_ticks
from multiqueue.simulation.report.table import format_change, format_seconds, list_rows, list_seeds
from multiqueue.simulation.traces.make import TraceRequest
from tests.dispatcher_package import install

PROGRAM = "import sys; from multiqueue.cli.main import main; sys.exit(main())"
PERCENTS = (100, 200, 400, 2000)
SMALL = ["simulate", "--jobs", "12", "--clusters", "2", "--processes", "1"]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    plan = Plan(
        wanted=TraceRequest(source="helios-like", count=15, load=1.2, teams=2),
        fleet=make_fleet(2),
        contestants=(
            Contestant(label="all-at-once", dispatcher="all-at-once"),
            Contestant(label="<score>", dispatcher="score", arguments={"race": 1}),
        ),
        seeds=(1, 2),
    )
    return compare(plan, processes=1)


class Checker(HTMLParser):
    """Knows whether every tag is closed, and what the page would fetch."""

    EMPTY = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"h1", "h2"}:
            self.headings.append(data)


def test_everybody_plays_the_same_jobs(comparison: Comparison) -> None:
    first, second = comparison.runs.values()
    assert [run.seed for run in first] == [1, 2]
    assert [[r.job for r in run.jobs] for run in first] == [
        [r.job for r in run.jobs] for run in second
    ]


def test_the_table_has_a_line_a_figure_and_differences_to_the_first(
    comparison: Comparison,
) -> None:
    headers, rows = list_rows(comparison)
    assert headers == ["FIGURE", "ALL-AT-ONCE", "<SCORE>"]
    titles = [row[0] for row in rows]
    assert titles == [metric.title for metric in METRICS if metric.title in titles]
    copies = next(row for row in rows if row[0] == "remote copies per job")
    assert copies[1] == "2.00"
    assert copies[2].endswith("%)")


def test_each_seed_is_told_beside_the_first_dispatcher(comparison: Comparison) -> None:
    (line,) = list_seeds(comparison)
    assert line.startswith("mean wait of <score> beside all-at-once, by seed: ")
    assert line.count("%") == 2


def test_csv_has_a_line_a_run(comparison: Comparison) -> None:
    lines = format_csv(comparison).splitlines()
    assert lines[0].startswith("dispatcher,seed,mean_wait,p90_wait,p99_wait,")
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["all-at-once", "1"],
        ["all-at-once", "2"],
        ["<score>", "1"],
        ["<score>", "2"],
    ]


def test_the_page_is_whole_and_fetches_nothing(comparison: Comparison) -> None:
    page = build_page(comparison)
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.fetched == []
    assert "url(" not in page
    assert "nan" not in page.lower().replace("nano", "")
    assert "How long jobs waited" in checker.headings
    assert "Whether it is luck" in checker.headings
    assert "<score>" not in page
    assert page.count("<svg") == 4 + 2 * 2


def test_one_dispatcher_and_one_seed_make_a_page_too(comparison: Comparison) -> None:
    plan = comparison.plan
    alone = Plan(wanted=plan.wanted, fleet=plan.fleet, contestants=plan.contestants[:1], seeds=(1,))
    page = build_page(compare(alone, processes=1))
    assert "How all-at-once does" in page
    assert "Whether it is luck" not in page


def test_another_process_with_another_hash_seed_gives_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [*SMALL, "-o", "json"]
    assert main(arguments) == 0
    here = json.loads(capsys.readouterr().out)
    there = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert json.loads(there.stdout) == here
    rivals = [f"{name}@{n}" for name in ("all-at-once", "incremental") for n in PERCENTS]
    assert [each["label"] for each in here["dispatchers"]] == [*rivals, "score"]


def test_the_command_writes_what_it_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, table = tmp_path / "out.html", tmp_path / "out.csv"
    options = ["--compare", "all-at-once,few=incremental", "--set", "few.stepSize=1"]
    options += ["--manager-quota", "100"]
    assert main([*SMALL, *options, "--report", str(page), "--csv", str(table)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("12 jobs of helios-like (seed 1) at a load of 0.9 on 112 GPUs: a100-1")
    assert "FEW" in out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "few,1," in table.read_text(encoding="utf-8")


def test_the_last_dispatcher_is_compared_with_the_best_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, table = tmp_path / "out.html", tmp_path / "out.csv"
    options = ["--compare", "all-at-once,score", "--report", str(page), "--csv", str(table)]
    assert main([*SMALL, *options]) == 0
    out = capsys.readouterr().out
    assert "score with 2000 % of quota on the manager, beside the rival" in out
    assert "of the best rival <= 0.7" in out
    assert out.index("missed") < out.index("yes"), "what is missed comes first"
    assert "BEST RIVAL" in out
    rows = [line.split(",")[0] for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    assert rows == [*(f"all-at-once@{n}" for n in PERCENTS), "score"]
    assert "Score against best rival" in page.read_text(encoding="utf-8")


def test_a_terminal_is_told_how_far_it_is_from_the_start(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main([*SMALL, "--compare", "all-at-once"]) == 0
    shown = capsys.readouterr().err.removeprefix("\r").removesuffix("\r\x1b[K")
    assert shown.split("\x1b[K\r") == [
        "0 of 1 runs, of 12 jobs each",
        "1 of 1 runs: all-at-once, seed 1\x1b[K",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--compare", "nobody"], 'dispatcher "nobody" is not installed'),
        (["--compare", "example.com/mine"], 'dispatcher "example.com/mine" is not installed'),
        (["--compare", ","], "--compare: name at least one dispatcher"),
        (["--compare", "score,score"], "two have the same label; use LABEL=NAME"),
        (["--set", "race=1"], '--set "race=1": write LABEL.ARGUMENT=VALUE'),
        (["--set", "score.race=["], '--set "score.race=["'),
        (["--set", "score.race=x"], 'dispatcher "score": argument race'),
        (["--compare", "incremental", "--set", "incremental.stepSize=x"], "stepSize"),
        (["--trace", "no.csv"], 'trace "no.csv" cannot be read'),
        (["--trace", "philly"], 'trace "philly" is neither a generator nor a file'),
        (["--fleet", "no.yaml"], 'fleet "no.yaml" cannot be read'),
        (
            ["--manager-quota", "100,x"],
            '--manager-quota "100,x": write different percentages above 0',
        ),
        (["--manager-quota", "100,100"], '--manager-quota "100,100": write different percentages'),
        (["--outage", "west:1h:1h"], 'there is no cluster "west"; there are a100-1, h100-1'),
        (["--outage", "a100-1:1h"], '"" is not a duration'),
        (["--outage", "a100-1:1h:1h", "--outage", "a100-1:9h:1h"], '"a100-1" has one already'),
        (["--report", "no/where/out.html"], 'there is no folder "no/where"'),
    ],
)
def test_wrong_usage_is_told_at_once(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, *options]) == 2
    assert words in capsys.readouterr().err


ENDS = """
import os


class Ends:
    name = "ends"

    def nominate(self, view):
        os._exit(0)
"""


def test_a_run_that_ends_its_process_is_no_success(tmp_path: Path) -> None:
    install(tmp_path, "ending_package", ENDS, {"ends": "Ends"})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *SMALL[:-1], "2", "--seeds", "2", "--compare", "ends"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: a run ended its process: a dispatcher among ends ends")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (90, "90 s"), (60, "1 min"), (600, "10 min"), (5400, "90 min"), (9000, "2.5 h")],
)
def test_times_are_told_in_the_unit_that_suits_them(seconds: float, words: str) -> None:
    assert format_seconds(seconds) == words


def test_changes_are_told_in_percent() -> None:
    assert format_change(10.0, 7.0) == "(-30 %)"
    assert format_change(0.0, 7.0) == ""
    assert format_change(1000.0, 999.0) == format_change(999.0, 1000.0) == "(0 %)"


def test_ticks_are_round() -> None:
    assert round_ticks(0.9) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert time_ticks(4000) == [0.0, 1800.0, 3600.0, 5400.0]
