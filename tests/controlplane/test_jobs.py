"""Recorded cases of every job kind, driven through our manager on a real control plane.

No controller of Kubernetes or of a kind runs: the driver plays them. What KIND, ONLY, SHOW, WHY and
ACCEPT choose is in tests/conformance/README.md.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import jobs_driving
from tests.conformance.jobs_driving import Cases
from tests.controlplane import installed, kinds
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.plane import RealControlPlane

AGAIN_SECONDS = 5.0
"""Silence that ends a step where cases that must not fail are driven again: on a busy machine an
answer may come after the step was taken for settled.
"""
NAMED = 50
"""So many failed cases are named."""


@pytest.mark.conformance
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", ["jobs", "readiness"])
def test_a_manager_treats_jobs_as_recorded(tmp_path: Path, group: str) -> None:
    require(*NEEDED)
    cases = jobs_driving.choose(group, os.environ.get("KIND", ""), os.environ.get("ONLY", ""))
    cases = without_missing(cases)
    if not cases.names:
        pytest.skip("none is chosen")
    failing = drive(tmp_path / "first", cases)
    if os.environ.get("ACCEPT"):
        jobs_driving.accept(failing, cases)
    regressions = cases.only(jobs_driving.find_regressions(failing, cases))
    if regressions.names:
        say(f"these must pass, so they are driven again: {' '.join(sorted(regressions.names))}")
        still = drive(tmp_path / "again", regressions, f"--settle={AGAIN_SECONDS}")
        assert still == set(), "data/jobs/open.json does not have these: they must pass"


def without_missing(cases: Cases) -> Cases:
    """Return the cases of kinds whose definitions are on this machine, and name the others."""
    missing = kinds.find_missing()
    files = {file for file, each in cases.by_file.items() if kinds.find_crds(list(each)) & missing}
    if files:
        say(f"left out, since `make controlplane` could not get them: {' '.join(sorted(files))}")
    kept = {file: each for file, each in cases.by_file.items() if file not in files}
    return Cases(kept, cases.folder)


def drive(work: Path, cases: Cases, *options: str) -> set[str]:
    """Drive cases through a manager of their own; return those that failed."""
    crds = kinds.find_crds(list(cases.by_file.values()))
    with running_manager(work, crds, block_admission=cases.are_about_readiness) as kubeconfig:
        if cases.are_about_readiness:
            options += ("--batch=1",)
        jobs_driving.drive(kubeconfig, cases, work, *options)
    told = [f"--{name.lower()}={os.environ.get(name) or 0}" for name in ("SHOW", "WHY")]
    say(f"\n{jobs_driving.compare(work, *told)}")
    log = work / "manager" / "log"
    say(f"{len(installed.troubles(log.parent))} warnings and errors in {log}")
    failing = jobs_driving.find_failing(work)
    if len(failing) <= NAMED:
        say(f"failed: {' '.join(sorted(failing)) or 'none'}")
    passing = (
        cases.names - cases.timing - failing - jobs_driving.find_regressions(cases.names, cases)
    )
    if passing:
        say(f"{len(passing)} passed that may fail: commit data/jobs/open.json after ACCEPT=1")
    return failing


@contextlib.contextmanager
def running_manager(folder: Path, crds: set[str], *, block_admission: bool) -> Iterator[str]:
    """Run a control plane and our manager with the kinds of these definitions."""
    with RealControlPlane(folder / "plane", controllers=False) as plane:
        kinds.install(plane, crds)
        installed.install(plane)
        waiting = {"timeout": "10h", "recoveryTimeout": "10h", "blockAdmission": block_admission}
        settings = {"leaderElection": {"leaderElect": False}, "waitForPodsReady": waiting}
        settings |= kinds.settings_for(crds, kinds.OUR_GATES)
        with installed.leader(plane, folder / "manager", **settings):
            yield str(plane.kubeconfig)


def say(text: str) -> None:
    """Print to whoever looks on."""
    sys.stdout.write(f"{text}\n")
