"""Prometheus's own tool reads the rules, fires the alerts, and parses what boards ask for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.controlplane import binaries
from tests.controlplane.conftest import require
from tools import generate_boards, generate_rules

CASES = sorted((Path(__file__).parents[1] / "prometheus").glob("*.yaml"))


def promtool(*arguments: str | Path) -> str:
    """Run promtool; answers what it prints."""
    require("promtool")
    command = [str(binaries.get("promtool")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_reads_the_rules() -> None:
    told = promtool("check", "rules", "--lint-fatal", *sorted(generate_rules.RULES.glob("*.yaml")))
    assert told.count("SUCCESS") == len(CASES)


@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_only_then(cases: Path) -> None:
    promtool("test", "rules", cases)


def test_prometheus_parses_what_boards_ask_for(tmp_path: Path) -> None:
    expressions = [
        target["expr"]
        for path in sorted(generate_boards.FOLDER.glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel["targets"]
    ]
    rules = [{"record": f"board:{n}", "expr": each} for n, each in enumerate(expressions)]
    path = tmp_path / "boards.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))
    assert f"{len(expressions)} rules found" in promtool("check", "rules", path)
