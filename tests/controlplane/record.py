"""Record what upstream decides: the expectations that ours are held against.

Each scenario is driven twice through upstream's manager on control planes of its own; what differs
between the two depends on timing, and is named instead of kept.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.driving import HERE, PROFILES, SETTINGS
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.upstream import install_upstream, running_kueue

DRIVES = ("first", "second")


def record(scenarios: Sequence[Path], out: Path, work: Path) -> list[str]:
    """Record scenarios into a folder; answers the names of those whose recordings differ.

    Raises:
        ValueError: A scenario's profile is none that a Configuration is known for.
    """
    out.mkdir(parents=True, exist_ok=True)
    by_group: dict[str, list[Path]] = {}
    for scenario in scenarios:
        by_group.setdefault(_group_of(scenario), []).append(scenario)
    differing = []
    for group, members in by_group.items():
        folders = [work / group / drive for drive in DRIVES]
        for folder in folders:
            _drive(members, SETTINGS[group], folder)
        for scenario in members:
            first, second = ((folder / "out" / scenario.name).read_bytes() for folder in folders)
            if first == second:
                (out / scenario.name).write_bytes(first)
            else:
                differing.append(scenario.stem)
    return differing


def _group_of(scenario: Path) -> str:
    profile = scenario.stem.rpartition("-")[0]
    for group, profiles in PROFILES.items():
        if profile in profiles:
            return group
    raise ValueError(f"{scenario}: no Configuration is known for the profile {profile!r}")


def _drive(scenarios: Sequence[Path], settings: str, folder: Path) -> None:
    with RealControlPlane(folder / "plane") as plane:
        install_upstream(plane)
        with running_kueue(plane, folder / "kueue", more=settings):
            driver = [sys.executable, str(HERE / "drive.py"), "--kubeconfig", str(plane.kubeconfig)]
            subprocess.run(
                [*driver, "--out", str(folder / "out"), *map(str, scenarios)], check=True
            )
