"""Recorded scenarios, driven through a real manager on the embedded API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.answers import assert_answers_as_recorded
from tests.conformance.driving import PROFILES, assert_decides_as_recorded, embedded


@pytest.mark.conformance
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("group", PROFILES)
def test_a_manager_decides_as_recorded(tmp_path: Path, group: str) -> None:
    assert_decides_as_recorded(tmp_path, group, embedded)


@pytest.mark.conformance
@pytest.mark.timeout(300)
def test_good_and_bad_objects_are_answered_as_recorded(tmp_path: Path) -> None:
    with embedded(tmp_path) as kubeconfig:
        assert_answers_as_recorded(tmp_path, kubeconfig)
