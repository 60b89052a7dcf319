"""Alerts, recorded rules and boards: what they look at exists, and each alert has its runbook."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from prometheus_client import CollectorRegistry, Histogram

from multiqueue.cli.main import cli
from multiqueue.observability.metrics import ManagerMetrics
from tests.metric_expressions import FILLED_IN_BY_PROMETHEUS, find_unknown
from tools import generate_boards, generate_rules

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs" / "runbooks"
RULES = [
    rule
    for path in sorted(generate_rules.RULES.glob("*.yaml"))
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
BOARDS = sorted(generate_boards.FOLDER.glob("*.json"))


def list_series() -> dict[str, set[str]]:
    """Return the labels of each series: those of the table, and those that rules record."""
    found: dict[str, set[str]] = {}
    for row in ManagerMetrics.rows():
        labels = set(row.labels)
        if isinstance(row.make(CollectorRegistry()), Histogram):
            for suffix in ("_sum", "_count"):
                found[row.name + suffix] = labels
            found[f"{row.name}_bucket"] = labels | FILLED_IN_BY_PROMETHEUS
        else:
            found[row.name] = labels
    for rule in RULES:
        if "record" in rule:
            by = re.search(r"sum by \(([^)]*)\)", rule["expr"])
            grouped = {label.strip() for label in by[1].split(",")} if by else set()
            found.setdefault(rule["record"], set()).update(grouped, rule["labels"])
    return found


SERIES = list_series()


def test_rules_look_at_metrics_that_there_are() -> None:
    assert {e: u for r in RULES if (u := [*find_unknown(e := r["expr"], SERIES)])} == {}


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_boards_look_at_metrics_that_there_are(path: Path) -> None:
    board = json.loads(path.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert expressions
    assert {e: u for e in expressions if (u := [*find_unknown(e, SERIES)])} == {}
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.findall(r"[\w]+", variable["query"])[1:]
            assert label in SERIES[metric]


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ("max(multiqueue_leader)", ["metric multiqueue_leader"]),
        ("sum(rate(multiqueue_stage_seconds[5m]))", ["metric multiqueue_stage_seconds"]),
        ('multiqueue_gpus{queue="a"}', ["label queue of multiqueue_gpus"]),
        ("sum by (worker) (multiqueue_worker_gpus)", ["label worker of multiqueue_worker_gpus"]),
        ("up == 0", ["no metric of ours in up == 0"]),
        ("sum by (cluster, le) (rate(multiqueue_stage_seconds_bucket[5m]))", []),
    ],
)
def test_a_renamed_metric_or_label_is_found(expression: str, unknown: list[str]) -> None:
    assert list(find_unknown(expression, SERIES)) == unknown


def test_what_is_generated_is_up_to_date() -> None:
    assert generate_rules.OBJECTS.read_text() == generate_rules.render(), "run `make rules`"
    names = {name.lower() for name in generate_boards.BOARDS}
    assert {path.stem for path in BOARDS} == names
    for name in generate_boards.BOARDS:
        path = generate_boards.FOLDER / f"{name.lower()}.json"
        assert path.read_text() == generate_boards.render(name), "run `make rules`"


def test_panels_are_questions_with_a_sentence_and_a_unit() -> None:
    for panel in (panel for board in generate_boards.BOARDS.values() for panel in board):
        assert panel.title.endswith("?"), panel
        assert panel.says.endswith("."), panel
        assert panel.unit, panel


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_has_a_severity_and_a_runbook(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert alert["annotations"]["runbook_url"].endswith(f"/runbooks/{name}.md")
    page = (RUNBOOKS / f"{name}.md").read_text()
    parts = ("**Is it real?**", "**What users feel.**", "**Causes**", "**What to do.**")
    assert [part for part in parts if part not in page] == []


def test_each_runbook_has_its_alert_and_its_line() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    assert pages == set(ALERTS)
    index = (RUNBOOKS / "README.md").read_text()
    rows = re.findall(r"^\| \[(\w+)\]\(\w+\.md\) \| (\w+) \|", index, re.MULTILINE)
    assert dict(rows) == {name: each["labels"]["severity"] for name, each in ALERTS.items()}


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases: Counter[tuple[str, bool]] = Counter()
    for path in (ROOT / "tests" / "prometheus").glob("*.yaml"):
        for case in yaml.safe_load(path.read_text())["tests"]:
            for each in case["alert_rule_test"]:
                cases[each["alertname"], bool(each["exp_alerts"])] += 1
    assert {(name, fires) for name in ALERTS for fires in (True, False)} == set(cases)


def list_commands() -> list[str]:
    found: set[str] = set()
    for path in (*RUNBOOKS.glob("*.md"), ROOT / "docs" / "troubleshooting.md"):
        found |= set(re.findall(r"^(multiqueue .+)$", path.read_text(), re.MULTILINE))
        found |= set(re.findall(r"`(multiqueue [^`]+)`", path.read_text()))
    return sorted(found)


@pytest.mark.parametrize("command", list_commands())
def test_the_command_line_takes_the_commands_for_who_is_on_call(command: str) -> None:
    arguments = shlex.split(command)[1:]
    found: Any = cli
    with click.Context(found) as context:
        while isinstance(found, click.Group) and arguments and not arguments[0].startswith("-"):
            name = arguments.pop(0)
            found = found.get_command(context, name)
            assert found is not None, f"no command {name}"
        found.make_context(found.name, arguments)
