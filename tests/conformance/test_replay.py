"""The engine decides, step for step, what a reference control plane was recorded to decide.

The data are the recordings of two whole profiles (quota, checks), and those of other profiles in
which nothing was preempted.
"""

import json

import pytest

from tests.conformance.replay import DATA, first_difference, replay

NAMES = sorted(path.stem for path in (DATA / "scenarios").glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_decides_as_recorded(name: str) -> None:
    scenario = json.loads((DATA / "scenarios" / f"{name}.json").read_text())
    want = json.loads((DATA / "expected" / f"{name}.json").read_text())

    assert first_difference(want, replay(scenario)) is None


def test_the_quota_profile_is_complete() -> None:
    assert sum(name.startswith("quota-") for name in NAMES) == 12
    assert sum(name.startswith("checks-") for name in NAMES) == 12
