"""Drive recorded scenarios through a real manager over its API, on any control plane.

The manager runs as a user starts it, in its own process; drive.py plays the users and records what
was decided after every step; compare.py holds that against the recordings.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tests.processes import running, wait_for_text

HERE = Path(__file__).parent
DATA = HERE / "data"
PROFILES = {
    "classical": (
        "quota",
        "single",
        "preemption",
        "flavors",
        "fungibility",
        "hierarchy",
        "partial",
        "checks",
        "tas",
        "deep",
    ),
    "fair": ("fair", "fairhier", "deepfair"),
    "afs": ("afs",),
}
"""By the Configuration that the reference had; the scenarios of one are driven in lock-step."""
SETTINGS = {
    "classical": "",
    "fair": """\
fairSharing:
  preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]
""",
    "afs": """\
admissionFairSharing:
  usageHalfLifeTime: 1h
  usageSamplingInterval: 1s
""",
}

CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job]
leaderElection:
  leaderElect: false
metrics:
  bindAddress: "0"
health:
  healthProbeBindAddress: "0"
webhook:
  port: 0
internalCertManagement:
  enable: false
"""


MUTUAL = frozenset({"partial-5078"})
"""Three workloads that drive each other out in turn: upstream stops by timing, we by rule, at the
recorded place where nothing takes time (test_replay), here sometimes at another."""
TIMING = MUTUAL | frozenset(json.loads((DATA / "timing.json").read_text()))
SETTLE_SECONDS = (1.2, 2.5, 5.0)
"""Silence that ends a step, drive by drive. A scenario that differs is driven again, and passes if
the difference does not stay: on a busy machine two requests of one step may change places, and an
answer may come after the step was taken for settled. compare.py asks for the same."""

ControlPlane = Callable[[Path], AbstractContextManager[str]]
"""Starts a control plane that keeps its files in a folder; gives the path of a kubeconfig."""


@contextlib.contextmanager
def embedded(work: Path) -> Iterator[str]:
    """The embedded API server, in its own process."""
    log = work / "apiserver.log"
    with running("apiserver", "--data", str(work / "data"), log=log) as server:
        yield wait_for_text(server, log, r"KUBECONFIG=(\S+)").group(1)


def assert_decides_as_recorded(tmp_path: Path, group: str, control_plane: ControlPlane) -> None:
    """Drive the scenarios of a group, again those that differ, and compare."""
    scenarios = [
        path
        for profile in PROFILES[group]
        for path in (DATA / "scenarios").glob(f"{profile}-*.json")
    ]
    assert {path.name.rpartition("-")[0] for path in scenarios} == set(PROFILES[group])
    expected, actual = tmp_path / "expected", tmp_path / "actual"
    expected.mkdir()
    for scenario in scenarios:
        shutil.copy(DATA / "expected" / scenario.name, expected)
    (tmp_path / "timing.json").write_text(json.dumps(sorted(TIMING)))

    differing = scenarios
    for number, seconds in enumerate(SETTLE_SECONDS):
        work = tmp_path / f"drive-{number}"
        work.mkdir()
        with control_plane(work) as kubeconfig:
            drive(work, SETTINGS[group], kubeconfig, differing, actual, settle=seconds)
        differing = [path for path in differing if differs(path.name, expected, actual)]
        if not differing:
            break
        sys.stdout.write(f"drive {number}: {sorted(path.stem for path in differing)} differ\n")

    comparison = subprocess.run(
        [sys.executable, str(HERE / "compare.py"), str(expected), str(actual)],
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(comparison.stdout)
    assert comparison.returncode == 0, comparison.stdout


def drive(
    work: Path,
    settings: str,
    kubeconfig: str,
    scenarios: list[Path],
    actual: Path,
    *,
    settle: float,
) -> None:
    """Drive scenarios through a manager of their own; what it decided lies in ``actual``."""
    config = work / "config.yaml"
    config.write_text(CONFIGURATION + settings)
    log = work / "manager.log"
    arguments = ("run", "--config", str(config), "--kubeconfig", kubeconfig, "--log-format=json")
    with running(*arguments, log=log) as manager:
        wait_for_text(manager, log, r'"event":"ready"')
        subprocess.run(
            [
                sys.executable,
                str(HERE / "drive.py"),
                *("--kubeconfig", kubeconfig),
                *("--out", str(actual)),
                *("--settle", str(settle)),
                *map(str, scenarios),
            ],
            check=True,
        )


def differs(name: str, expected: Path, actual: Path) -> bool:
    """Whether a scenario ended otherwise than recorded, and not only by a race that may."""
    if Path(name).stem in TIMING:
        return False
    return bool(
        json.loads((expected / name).read_text()) != json.loads((actual / name).read_text())
    )
