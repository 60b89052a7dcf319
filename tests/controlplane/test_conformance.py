"""Recorded scenarios, driven through a real manager on a real control plane."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.answers import assert_answers_as_recorded
from tests.conformance.driving import PROFILES, assert_decides_as_recorded
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until

CRDS = Path(__file__).parents[2] / "config" / "crd"


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("group", PROFILES)
def test_a_manager_decides_as_recorded(tmp_path: Path, group: str) -> None:
    require(*NEEDED)
    assert_decides_as_recorded(tmp_path, group, real)


@pytest.mark.timeout(300)
def test_good_and_bad_objects_are_answered_as_recorded(tmp_path: Path) -> None:
    require(*NEEDED)
    with real(tmp_path) as kubeconfig:
        assert_answers_as_recorded(tmp_path, kubeconfig)


@contextlib.contextmanager
def real(work: Path) -> Iterator[str]:
    """etcd, kube-apiserver and kube-controller-manager, with our definitions."""
    with RealControlPlane(work / "plane") as plane:
        plane.kubectl("apply", "--server-side", "-k", str(CRDS))
        plane.wait_until_served()
        for path in _paths(plane):
            # A new kind answers 429 until it has a cache; the first step would be over by then.
            watch = f"{path}?watch=1&timeoutSeconds=1"
            until(lambda watch=watch: _is_watchable(plane, watch), f"cache of {path}")
        plane.kubectl("create", "namespace", "kueue-system")
        yield str(plane.kubeconfig)


def _paths(plane: RealControlPlane) -> list[str]:
    """Where the objects of each kind are, in the newest version."""
    found = json.loads(plane.kubectl("get", "crd", "--output=json"))
    specs = [item["spec"] for item in found["items"]]
    return [
        f"/apis/{spec['group']}/{spec['versions'][-1]['name']}/{spec['names']['plural']}"
        for spec in specs
    ]


def _is_watchable(plane: RealControlPlane, path: str) -> bool:
    try:
        plane.kubectl("get", "--raw", path)
    except subprocess.CalledProcessError:
        return False
    return True
