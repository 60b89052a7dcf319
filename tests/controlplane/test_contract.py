"""The contract suite, case by case: the embedded server and a real one must answer the same."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.conftest import LEFT_OPEN
from tests.controlplane.plane import RealControlPlane

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "tests" / "contract"


@pytest.mark.timeout(1200)
def test_both_servers_give_the_same_result_case_by_case(
    shared_plane: RealControlPlane, tmp_path: Path
) -> None:
    real = outcomes(tmp_path / "real", {"CONTRACT_KUBECONFIG": str(shared_plane.kubeconfig)})
    embedded = outcomes(tmp_path / "embedded", {})
    assert len(real) > 200
    differing = {
        case: (embedded.get(case, "absent"), real.get(case, "absent"))
        for case in sorted(real.keys() | embedded.keys())
        if embedded.get(case) != real.get(case)
    }
    assert differing == {}
    assert set(real.values()) == {"passed"}


def outcomes(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """Run the suite; answers "passed", "skipped" or "failed" by case.

    Four processes share the server (most cases wait for it). Only one of them registers our
    webhooks: there is one registration, and each module's end removes it. Aggregation comes last:
    while a server that is registered does not answer, no namespace can be removed.
    """
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    environment.pop("CONTRACT_KUBECONFIG", None)
    environment |= settings
    registering = set(SUITE.glob("test_bad_input_*.py"))
    aggregation = {SUITE / "test_aggregation.py"}
    others = set(SUITE.glob("test_*.py")) - registering - aggregation
    folder.mkdir()
    with ThreadPoolExecutor() as threads:
        parts = [
            threads.submit(play, folder / "registering.xml", registering, 0, environment),
            threads.submit(play, folder / "others.xml", others, 3, environment),
        ]
        found = [part.result() for part in parts]
    found.append(play(folder / "aggregation.xml", aggregation, 0, environment))
    return {case: verdict for part in found for case, verdict in part.items()}


def play(
    report: Path, files: set[Path], processes: int, environment: dict[str, str]
) -> dict[str, str]:
    """Run some modules of the suite in so many processes; 0: in none but their own."""
    command = [sys.executable, "-m", "pytest", "-n", str(processes), "-W", f"ignore::{LEFT_OPEN}"]
    run = subprocess.run(
        [*command, f"--junitxml={report}", *sorted(map(str, files))],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(run.stdout[-8000:])
    found = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        verdict = "failed" if kinds & {"failure", "error"} else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = (
            "skipped" if "skipped" in kinds else verdict
        )
    return found
