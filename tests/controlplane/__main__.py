"""`python -m tests.controlplane COMMAND`: real control planes by hand; `--help` lists commands."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.upstream import programs
from tests.controlplane import binaries, kinds
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.record import record


def main() -> int:
    """Answer the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane")
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="build what is missing, print the folder")
    building.add_argument("programs", nargs="*", help="only these programs; default: everything")
    serve = commands.add_parser("serve", help="run one until SIGTERM, print KUBECONFIG=FILE")
    serve.add_argument("--dir", type=Path, help="where its files go; default: a temporary folder")
    run = commands.add_parser("run", help="run a command with CONTRACT_KUBECONFIG naming one")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    recording = commands.add_parser("record", help="record what upstream decides in scenarios")
    recording.add_argument("--out", type=Path, required=True)
    recording.add_argument("scenarios", type=Path, nargs="+")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    if given.command == "build" and given.programs:
        binaries.build(*given.programs)
        return 0
    if given.command == "build":
        sys.stdout.write(f"{binaries.build()}\n{kinds.download()}\n{programs.build()}\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="controlplane-") as temporary:
        if given.command == "record":
            differing = record(given.scenarios, given.out, Path(temporary))
            sys.stdout.write(f"not kept, since two recordings differ: {differing}\n")
            return 0
        folder = (given.dir if given.command == "serve" else None) or Path(temporary)
        with RealControlPlane(folder.absolute()) as plane:
            if given.command == "run":
                environment = {**os.environ, "CONTRACT_KUBECONFIG": str(plane.kubeconfig)}
                return subprocess.run(given.arguments, env=environment, check=False).returncode
            sys.stdout.write(f"KUBECONFIG={plane.kubeconfig}\n")
            sys.stdout.flush()
            signal.pause()
    return 0


def _end(*_: object) -> None:
    """Leave the ``with`` blocks, so that what was started ends."""
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
