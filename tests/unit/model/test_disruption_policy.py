"""DisruptionPolicies as the engine reads them, and what jobs declare about checkpoints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.api.v1beta2 import Workload
from multiqueue.model.disruption_policy import (
    DisruptionRules,
    SaveHabits,
    build_disruption_rules,
    format_seconds,
    parse_last_checkpoint,
    read_save_habits,
)


def build(**spec: Any) -> DisruptionRules:
    return build_disruption_rules(
        decode(DisruptionPolicy, {"metadata": {"name": "gpu"}, "spec": spec})
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"protection": {"minRun": {"queue": "-10m"}}}, 'spec.protection.minRun.queue: "-10m"'),
        ({"protection": {"growth": 9}}, "spec.protection.growth: 9 is not between 1 and 4"),
        ({"protection": {"window": "200h"}}, "spec.protection.window"),
        ({"cost": {"restart": "soon"}}, 'spec.cost.restart: "soon" is not a duration'),
        ({"migration": {"gain": 101}}, "spec.migration.gain: 101 is not between 0 and 100"),
        ({"prefer": "Cheapest"}, 'spec.prefer: "Cheapest" is not one of Default, LeastLostWork'),
        ({"maxDeviceSeconds": -1}, "spec.maxDeviceSeconds: -1 is not between 0 and"),
        ({"budgets": [{"name": "a"}]}, "spec.budgets[0]: set maxWorkloads, maxDeviceSeconds"),
        (
            {"budgets": [{"name": "a", "maxWorkloads": 1}, {"name": "a", "maxWorkloads": 1}]},
            'spec.budgets[1].name: "a"',
        ),
        (
            {"budgets": [{"name": "a", "maxLostPercent": 3, "per": "Owner"}]},
            "spec.budgets[0].maxLostPercent: needs quota",
        ),
    ],
)
def test_what_no_schema_checked_becomes_a_problem(spec: dict[str, Any], problem: str) -> None:
    """An old CRD, or none: the policy is not used, and says where it is wrong."""
    found = build(**spec)

    assert found.problem.startswith(problem)
    assert not found.is_empty


def test_an_empty_policy_asks_for_nothing() -> None:
    assert build().is_empty
    assert build(protection={"longest": "3h", "concede": "5m"}).is_empty
    assert not build(prefer="LeastRun").is_empty
    assert not build(notice={"longest": "5m"}).is_empty


def workload(grace: int | None = None, **annotations: str) -> Workload:
    spec = {} if grace is None else {"terminationGracePeriodSeconds": grace}
    wire = {
        "metadata": {"annotations": {f"multiqueue.dev/{k}": v for k, v in annotations.items()}},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": spec}}]},
    }
    return decode(Workload, wire)


ON_TERM = {"checkpoint-on": "Term"}
ON_NOTICE = {"checkpoint-on": "Notice"}


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (workload(), None),
        (workload(**{"checkpoint-interval": "30m"}), SaveHabits(interval=1800)),
        (workload(restart="90s"), SaveHabits(restart=90)),
        (workload(**{"checkpoint-interval": "now and then"}), None),
        (workload(**ON_TERM, **{"checkpoint-seconds": "29"}), SaveHabits(save_seconds=29)),
        (workload(**ON_TERM, **{"checkpoint-seconds": "30"}), None),
        (workload(60, **ON_TERM, **{"checkpoint-seconds": "30"}), SaveHabits(save_seconds=30)),
        (workload(**{"checkpoint-seconds": "5"}), None),
        (workload(**ON_NOTICE), SaveHabits(on_notice=True)),
        (
            workload(**ON_NOTICE, **{"checkpoint-seconds": "90"}),
            SaveHabits(on_notice=True, notice_seconds=90),
        ),
        (
            workload(**ON_NOTICE, **{"checkpoint-seconds": "soon"}),
            SaveHabits(on_notice=True),
        ),
    ],
)
def test_what_jobs_declare(obj: Workload, want: SaveHabits | None) -> None:
    """A save that takes as long as the grace period is cut off, and does not count."""
    assert read_save_habits(obj) == want


@pytest.mark.parametrize(
    ("habits", "longest", "seconds"),
    [
        pytest.param(SaveHabits(on_notice=True, notice_seconds=90), 300, 150, id="142.5 s"),
        pytest.param(SaveHabits(on_notice=True, notice_seconds=0), 300, 30, id="no time at all"),
        pytest.param(SaveHabits(on_notice=True, notice_seconds=8), 300, 40, id="exactly 40 s"),
        pytest.param(SaveHabits(on_notice=True, notice_seconds=90), 120, 120, id="the longest"),
        pytest.param(SaveHabits(on_notice=True), 300, 300, id="it does not say how long"),
        pytest.param(SaveHabits(on_notice=True, notice_seconds=90), 0, 0, id="none is given"),
        pytest.param(SaveHabits(save_seconds=20), 300, 0, id="it saves when it is stopped"),
    ],
)
def test_how_long_a_notice_is(habits: SaveHabits, longest: int, seconds: int) -> None:
    """P-49, P-51: a quarter more than saving takes, and 30 s, in steps of 10 s."""
    assert habits.notice_length(longest) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-22", "2026-11-22T10:00:00"])
def test_a_report_needs_a_time_with_a_zone(text: str) -> None:
    assert parse_last_checkpoint(text) is None


def test_a_report_in_another_zone() -> None:
    want = datetime(2026, 11, 22, 10, tzinfo=UTC)

    assert parse_last_checkpoint("2026-11-22T11:00:00+01:00") == want


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(600, "10m"), (86_400, "24h"), (5400, "1h30m"), (90, "1m30s"), (5, "5s"), (0, "0s")],
)
def test_durations_in_words(seconds: int, text: str) -> None:
    assert format_seconds(seconds) == text
