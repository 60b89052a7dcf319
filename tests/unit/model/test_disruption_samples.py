"""The shipped DisruptionPolicies can be used as they are, and fit on one screen."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.model.disruption_policy import build_disruption_rules

FOLDER = Path(__file__).parents[3] / "config" / "samples-disruption"
SAMPLES = sorted(FOLDER.glob("*.yaml"))
SCREEN = 24


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_says_something_that_counts_on_one_screen(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    rules = build_disruption_rules(decode(DisruptionPolicy, yaml.safe_load(text)))

    assert (rules.problem, rules.is_empty) == ("", False)
    assert path.stem.endswith(rules.name)
    assert len(text.splitlines()) <= SCREEN


def test_there_are_three() -> None:
    assert [path.stem[2:] for path in SAMPLES] == ["gentle", "production-serving", "research"]
