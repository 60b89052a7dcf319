"""Choose recorded cases of job kinds, drive them through a manager, and compare.

jobs.py plays the users and the kinds' own controllers and records what the manager did;
compare_jobs.py holds that against what upstream did. data/jobs/open.json names the cases that need
not pass yet, all others must.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
JOBS = HERE / "data" / "jobs"
OPEN = JOBS / "open.json"
READINESS = "readiness"
ALL = "all"
Case = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cases:
    """Cases by the file that they are in, named as their kind in lower case."""

    by_file: dict[str, list[Case]]
    folder: Path = JOBS

    @property
    def names(self) -> set[str]:
        """What they are called."""
        return {case["name"] for cases in self.by_file.values() for case in cases}

    @property
    def timing(self) -> set[str]:
        """What those are called that did not repeat themselves on upstream: none of them fails."""
        return set(json.loads((self.folder / "timing.json").read_text()))

    @property
    def are_about_readiness(self) -> bool:
        """Whether they need ``blockAdmission``, and are driven one at a time."""
        return self.folder.name == READINESS

    def only(self, names: Collection[str]) -> Cases:
        """Return those with these names."""
        chosen = {
            file: [case for case in cases if case["name"] in names]
            for file, cases in self.by_file.items()
        }
        return Cases({file: cases for file, cases in chosen.items() if cases}, self.folder)


def choose(group: str, kinds: str, only: str) -> Cases:
    """Return the cases of these kinds whose name contains a text; perhaps none.

    Args:
        group: "readiness", or "jobs" for all others.
        kinds: Names of files with commas between them; empty: all.
        only: A part of the names of cases; empty: all.

    Raises:
        ValueError: There is no such kind, or no case of either group has such a name.
    """
    known = sorted(path.stem for path in JOBS.rglob("cases/*.json"))
    wanted = kinds.split(",") if kinds else known
    for kind in wanted:
        if kind not in known:
            raise ValueError(f'KIND: "{kind}" has no recorded cases; choose of {", ".join(known)}')
    jobs, readiness = (_read(folder, wanted) for folder in (JOBS, JOBS / READINESS))
    named = {name for name in jobs.names | readiness.names if only in name}
    if not named:
        raise ValueError(f'ONLY: no case of these kinds has "{only}" in its name')
    return (readiness if group == READINESS else jobs).only(named)


def _read(folder: Path, kinds: Collection[str]) -> Cases:
    files = sorted((folder / "cases").glob("*.json"))
    by_file = {file.stem: json.loads(file.read_text()) for file in files if file.stem in kinds}
    return Cases(by_file, folder)


def drive(kubeconfig: str, cases: Cases, work: Path, *options: str) -> None:
    """Drive cases through a manager that runs; records and expectations lie in ``work``."""
    for file, chosen in cases.by_file.items():
        _write(work / "cases" / f"{file}.json", chosen)
        recorded = json.loads((cases.folder / "expected" / f"{file}.json").read_text())
        names = {case["name"] for case in chosen}
        _write(work / "expected" / f"{file}.json", {n: recorded[n] for n in recorded if n in names})
    _write(work / "timing.json", sorted(cases.timing))
    command = [sys.executable, str(HERE / "jobs.py"), f"--kubeconfig={kubeconfig}"]
    files = sorted((work / "cases").glob("*.json"))
    subprocess.run([*command, f"--out={work / 'actual'}", *options, *map(str, files)], check=True)


def compare(work: Path, *options: str) -> str:
    """Return what compare_jobs.py says of what was driven in a folder."""
    command = [sys.executable, str(HERE / "compare_jobs.py"), *options]
    folders = [str(work / "expected"), str(work / "actual")]
    done = subprocess.run([*command, *folders], check=False, capture_output=True, text=True)
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


def find_failing(work: Path) -> set[str]:
    """Return the names of the cases that compare_jobs.py counts as failed."""
    told = compare(work, f"--show={sys.maxsize}")
    failing = set(re.findall(r"^(\S+) step \d+, ", told, flags=re.MULTILINE))
    assert told.endswith(f", {len(failing)} failed\n"), told
    return failing


def find_regressions(failing: Collection[str], cases: Cases, open_file: Path = OPEN) -> set[str]:
    """Return the failing cases that data/jobs/open.json does not name."""
    may_fail = json.loads(open_file.read_text())
    return {
        case["name"]
        for file, chosen in cases.by_file.items()
        for case in chosen
        if may_fail.get(file) != ALL and case["name"] not in may_fail.get(file, ())
    }.intersection(failing)


def accept(failing: Collection[str], cases: Cases, open_file: Path = OPEN) -> None:
    """Have data/jobs/open.json name the failing ones of these cases, and no others of them."""
    may_fail = json.loads(open_file.read_text())
    for file, chosen in cases.by_file.items():
        names = {case["name"] for case in chosen}
        every = _read(cases.folder, [file]).names - cases.timing
        earlier = every if may_fail.get(file) == ALL else set(may_fail.get(file, ()))
        left = (earlier - names) | (names & set(failing))
        may_fail[file] = ALL if left == every else sorted(left)
    rows = (
        f" {json.dumps(file)}: {json.dumps(left)}"
        for file, left in sorted(may_fail.items())
        if left
    )
    open_file.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
