"""`python -m tests.e2e COMMAND`: what e2e-kind/run.sh needs; `--help` lists commands.

On bare control planes pytest runs the steps (`make e2e`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.controlplane.audit import build_policy, refused
from tests.controlplane.nodes import STAGES, as_list
from tests.e2e.checks import wait_until_active
from tests.e2e.fleet_under_test import MANAGER_USER, REMOTE_USER
from tests.e2e.kind import KindCluster, KindFleet
from tests.e2e.objects import make_nodes, set_up
from tests.e2e.steps import STEPS


def main() -> int:
    """Answer the exit status: 1 where a step failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("policy", help="print the audit policy that the steps rely on")
    commands.add_parser("stages", help="print which of kwok's stages its nodes go through")
    nodes = commands.add_parser("nodes", help="print the GPU nodes of a worker")
    nodes.add_argument("worker")
    run = commands.add_parser("run", help="run all steps on clusters of kind")
    run.add_argument("--folder", type=Path, required=True, help="has NAME.kubeconfig of each")
    run.add_argument("--manager", required=True)
    run.add_argument("--step", help="only steps whose name has this in it", default="")
    run.add_argument("workers", nargs=2)
    given = parser.parse_args()
    answers: dict[str, Callable[[], str]] = {
        "policy": lambda: json.dumps(build_policy()),
        "stages": lambda: "\n".join(STAGES),
        "nodes": lambda: json.dumps(as_list(make_nodes(given.worker))),
    }
    if given.command in answers:
        sys.stdout.write(answers[given.command]() + "\n")
        return 0
    workers = {name: KindCluster(name, given.folder) for name in given.workers}
    fleet = KindFleet(KindCluster(given.manager, given.folder), workers)
    return int(not run_steps(fleet, given.step))


def run_steps(fleet: KindFleet, chosen: str) -> bool:
    """Run the steps that have this in their names, all of them whatever fails; True: none did."""
    with fleet.running():
        set_up(fleet)
        wait_until_active(fleet.manager)
    failed = []
    for step in STEPS:
        if chosen not in step.__name__:
            continue
        began, outcome = time.monotonic(), "ok"
        try:
            step(fleet)
        except (AssertionError, TimeoutError, subprocess.CalledProcessError):
            failed.append(step)
            outcome = "failed"
            traceback.print_exc()
        sys.stdout.write(f"{outcome:6} {time.monotonic() - began:6.1f} s  {step.__name__}\n")
        sys.stdout.flush()
    denied = refused(fleet.manager, MANAGER_USER)
    for worker in fleet.workers.values():
        denied += refused(worker, REMOTE_USER)
    for line in denied:
        sys.stdout.write(f"refused: {line}\n")
    return not failed and not denied


if __name__ == "__main__":
    sys.exit(main())
