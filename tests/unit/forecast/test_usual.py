"""What an hour of some hardware is worth is what jobs usually get out of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multiqueue.forecast.traits import FinishedRun, Traits
from multiqueue.forecast.usual import KINDS, UsualSpeeds


def run(flavor: str = "a100", hours: float = 1, devices: int = 1) -> FinishedRun:
    took = timedelta(hours=hours)
    return FinishedRun(
        uid="u", traits=Traits(job_class="c"), flavor=flavor, took=took, devices=devices
    )


def test_nothing_is_usual_before_two_kinds_of_hardware_are_known() -> None:
    usual = UsualSpeeds()
    usual.learn(run("a100"), {})
    usual.learn(run("a100"), {"a100": 1000})
    assert usual.by_hardware() == {}


def test_it_is_beside_all_hardware_together_so_that_references_do_not_matter() -> None:
    declared, learned = UsualSpeeds(), UsualSpeeds()
    declared.learn(run("a100"), {"h100": 2000})
    learned.learn(run("h100"), {"a100": 500, "h100": 1000})
    assert declared.by_hardware() == learned.by_hardware() == {"a100": 667, "h100": 1333}


def test_jobs_count_by_the_hours_that_they_take() -> None:
    usual = UsualSpeeds()
    usual.learn(run("a100", hours=1, devices=1), {"h100": 1000})
    usual.learn(run("a100", hours=3, devices=8), {"h100": 3000})
    speeds = usual.by_hardware()
    assert speeds["h100"] / speeds["a100"] == pytest.approx(2.8, abs=0.1)


def test_what_was_long_ago_fades() -> None:
    usual = UsualSpeeds()
    for speed in (1000, 3000):
        for _ in range(4000):
            usual.learn(run("a100"), {"h100": speed})
    speeds = usual.by_hardware()
    assert speeds["h100"] / speeds["a100"] == pytest.approx(3.0, abs=0.1)


def test_the_names_of_hardware_are_bounded() -> None:
    usual = UsualSpeeds()
    for number in range(2 * KINDS):
        usual.learn(run(f"flavor-{number}"), {"h100": 2000})
    assert len(usual.by_hardware()) == KINDS
    assert "h100" in usual.by_hardware()


def test_one_job_cannot_have_all_others_forgotten() -> None:
    usual = UsualSpeeds()
    usual.learn(run("a100"), {"h100": 2000})
    usual.learn(run("a100"), {f"invented-{number}": 1 for number in range(KINDS)})
    assert set(usual.by_hardware()) == {"a100", "h100"}
