"""Upstream's perf runner and minimal manager: built from their module, by name and version.

The minimal manager has its client limits in its source. It is built twice: as it is (50 requests a
second), and without limits.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.bench.upstream.course import LAST
from tests.controlplane import binaries

MODULE = "sigs.k8s.io/kueue"
TOOLS = "kueue-performance"
PERFORMANCE = "test/performance/scheduler"
RUNNER, LIMITED, UNLIMITED = "runner", "minimalkueue", "minimalkueue-unlimited"
LIMITS = "kubeConfig.QPS = 50", "kubeConfig.Burst = 100"
NO_LIMITS = "kubeConfig.QPS = -1", "kubeConfig.Burst = 100"
"""client-go does not limit requests if QPS is negative."""
GENERATORS = "baseline", "large-scale", "tas"
PER_COHORT = "large-scale"
"""A part of this one has fewer cohorts, and one with fewer queues if the part is less than one of
them: its queues get too few Workloads to be divided.
"""

LAST_SECONDS = 20.0
"""Queues' statuses are written behind admissions. A fiftieth of a generator is over by then."""


def cache_folder() -> Path:
    """Where the programs are kept; another folder for other versions."""
    return binaries.versioned_folder("performance", [TOOLS])


def missing() -> list[str]:
    """The programs that are not built yet."""
    return [n for n in (RUNNER, LIMITED, UNLIMITED) if not (cache_folder() / n).exists()]


def build() -> Path:
    """Build what is missing, and return the folder of the programs.

    Raises:
        FileNotFoundError: There is no Go.
        subprocess.CalledProcessError: A program does not build.
    """
    folder = cache_folder()
    names = missing()
    if names and shutil.which("go") is None:
        raise FileNotFoundError("no go on this machine: install Go 1.26 or newer")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        unfinished = folder / f".{name}.unfinished"
        if name == UNLIMITED:
            _build_unlimited(unfinished)
        else:
            _go_build(binaries.TOOLS / TOOLS, f"{MODULE}/{PERFORMANCE}/{name}", unfinished)
        unfinished.rename(folder / name)
    return folder


def _go_build(module: Path, package: str, program: Path) -> None:
    command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), package]
    subprocess.run(command, cwd=module, check=True)


def _build_unlimited(program: Path) -> None:
    text = (_sources() / "minimalkueue" / "main.go").read_text()
    for line, instead in zip(LIMITS, NO_LIMITS, strict=True):
        assert text.count(line) == 1, f"upstream's minimal manager has no line {line!r} any more"
        text = text.replace(line, instead)
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(binaries.TOOLS / TOOLS / name, Path(temporary) / name)
        (Path(temporary) / "main.go").write_text(text)
        _go_build(Path(temporary), ".", program)


def _sources() -> Path:
    return binaries.module_folder(TOOLS, MODULE) / PERFORMANCE


def read_generator(name: str) -> dict[str, Any]:
    """Return a generator of upstream's benchmark as its runner reads it."""
    path = _sources() / "configs" / name / "generator.yaml"
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def scale(name: str, generator: dict[str, Any], part: float) -> dict[str, Any]:
    """Return the generator with a part of its Workloads, and the same queues where possible.

    Args:
        name: Which generator it is: of large-scale, cohorts and queues are left out.
        generator: As `read_generator` returns it.
        part: More than 0, at most 1; no set gets less than one Workload.
    """
    scaled: dict[str, Any] = json.loads(json.dumps(generator))
    for cohorts in scaled["cohorts"]:
        wanted = cohorts["count"] * part
        if name == PER_COHORT:
            cohorts["count"] = max(1, round(wanted))
        for queues in cohorts["queuesSets"]:
            if name == PER_COHORT:
                queues["count"] = max(1, round(queues["count"] * min(1, wanted)))
                continue
            for works in queues["workloadsSets"]:
                works["count"] = max(1, round(works["count"] * part))
    return scaled


def with_last_cohort(generator: dict[str, Any]) -> dict[str, Any]:
    """Return the generator with one more cohort, whose only Workload comes `LAST_SECONDS` later.

    The runner looks at queues' statuses only after it has created all Workloads, and it ends if no
    status says that something waits or runs. Short generators are created before the first status
    is written. The last Workload holds that look off; `Course` leaves it out.
    """
    last = {"className": LAST, "runtimeMs": 1, "priority": 0, "request": "1"}
    works = {"count": 1, "creationIntervalMs": int(LAST_SECONDS * 1000), "workloads": [last]}
    queues = {
        "className": "cq",
        "count": 1,
        "nominalQuota": "1",
        "borrowingLimit": "0",
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
        "workloadsSets": [works],
    }
    cohort = {"className": LAST, "count": 1, "queuesSets": [queues]}
    return generator | {"cohorts": [*generator["cohorts"], cohort]}


def count_workloads(generator: dict[str, Any]) -> int:
    """Return how many Workloads a generator makes."""
    return sum(
        cohorts["count"] * queues["count"] * works["count"] * len(works["workloads"])
        for cohorts in generator["cohorts"]
        for queues in cohorts["queuesSets"]
        for works in queues["workloadsSets"]
    )


def cohort_cores(generator: dict[str, Any]) -> int:
    """Return the nominal quota of one cohort in cores; all cohorts of a generator are equal."""
    return sum(
        queues["count"] * int(queues["nominalQuota"])
        for queues in generator["cohorts"][0]["queuesSets"]
    )
