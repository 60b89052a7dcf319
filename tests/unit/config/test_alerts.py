"""The alert rules: whatever they look at is exported, under the labels that they ask for."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from multiqueue.observability.metrics import ManagerMetrics

FILE = Path(__file__).parents[3] / "config" / "prometheus" / "rules.yaml"
SUFFIX = re.compile(r"_(bucket|sum|count)$")


def test_rules_look_at_metrics_that_there_are() -> None:
    labels = {row.name: {*row.labels, "le"} for row in ManagerMetrics.rows()}
    groups = yaml.safe_load(FILE.read_text())["spec"]["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        names = re.findall(r"\b((?:multiqueue|multikueue|kueue)_\w+)", rule["expr"])
        known = {SUFFIX.sub("", name) for name in names}
        assert known, rule["alert"]
        assert known <= set(labels), rule["alert"]
        asked = set(re.findall(r"(\w+)(?:!?=~?)\"", rule["expr"]))
        for by in re.findall(r"(?:by|on) \(([^)]*)\)", rule["expr"]):
            asked |= {label.strip() for label in by.split(",")}
        for name in known:
            assert asked <= labels[name], (rule["alert"], name)
