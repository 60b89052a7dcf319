"""`python -m tests.bench.upstream`: upstream's benchmark with ours and with upstream's manager."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.upstream import page, programs
from tests.bench.upstream.run import NO_LIMIT, OURS, UPSTREAM, Setting, measure
from tests.controlplane import binaries

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "performance.md"
LIMITS = (NO_LIMIT, 50)
PROGRAMS = (OURS, UPSTREAM)
SECONDS = 3600.0
"""How long one run may take."""


def main() -> int:
    """Answer the exit status: 1 if a run did not finish."""
    given = _parse()
    programs.build()
    binaries.build()
    given.out.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in given.generator:
        runs = _run_all(name, given)
        failed = failed or len(runs) < given.rounds * len(given.limits) * len(given.programs)
        if not runs:
            continue
        report = _describe_machine() | {"runs": runs}
        (given.out / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
        section = page.render(report)
        sys.stdout.write(f"\n{section}")
        if given.page is not None:
            given.page.write_text(page.replace_section(given.page.read_text(), name, section))
    return int(failed)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.upstream", description=__doc__)
    option = parser.add_argument
    option("--generator", nargs="+", choices=programs.GENERATORS, default=programs.GENERATORS)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--scale", type=_part, default=1.0, help="a part of the Workloads: 0.1, 1/5")
    size.add_argument("--workloads", type=int, help="about so many Workloads instead of a part")
    option("--rounds", type=int, default=2, help="how often each is run, in turn")
    option("--limits", type=int, nargs="+", default=LIMITS, help="requests per second; 0: no limit")
    option("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    option("--out", type=Path, default=Path("bench-upstream"), help="where the JSON goes")
    option("--page", type=Path, help="the page that gets the figures, too")
    return parser.parse_args()


def _part(text: str) -> float:
    above, _, below = text.partition("/")
    part = float(above) / float(below or 1)
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a part: give more than 0 and at most 1")
    return part


def _run_all(name: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    total = programs.count_workloads(programs.read_generator(name))
    part = min(1.0, given.workloads / total) if given.workloads else given.scale
    runs = []
    for number in range(1, given.rounds + 1):
        for limit, program in itertools.product(given.limits, _in_turn(given.programs, number)):
            setting = Setting(program, name, limit, part)
            folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-{program}-{limit}-"))
            try:
                run = measure(setting, folder, SECONDS)
            except (RuntimeError, TimeoutError, subprocess.CalledProcessError) as error:
                sys.stderr.write(f"{setting}: {error}\n")
                continue
            shutil.rmtree(folder)
            runs.append(run)
            sys.stderr.write(
                f"round {number}, {name}, {program}, limit {limit}: "
                f"{run['wallSeconds']} s, {run['evictions']} evictions, "
                f"{page.writes_per_admission(run):.2f} writes per admission\n"
            )
    return runs


def _in_turn(names: Sequence[str], number: int) -> Sequence[str]:
    """Return the programs in the order of this round: who comes first changes."""
    return names if number % 2 else names[::-1]


def _describe_machine() -> dict[str, str]:
    models = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": os.environ.get("BENCH_COMMAND") or " ".join(["python -m", *sys.orig_argv[2:]]),
        "commit": _ask("git", "rev-parse", "--short=10", "HEAD"),
        "machine": f"{os.cpu_count()} cores ({', '.join(sorted(models))}), {memory:.0f} GiB",
        "versions": (
            f"Kueue {binaries.KUEUE}, Kubernetes {binaries.KUBERNETES}, "
            f"Python {platform.python_version()}, {_ask('go', 'env', 'GOVERSION')}"
        ),
    }


def _ask(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
