"""``python -m tests.fleet``: many seeds side by side, or one with everything that happens.

The last line sums up what was exercised. A broken promise ends it with status 1, with the script of
the run and the command that plays it again.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from time import monotonic

from tests.fleet.kinds import INTEGRATIONS
from tests.fleet.plan_extras import make_seed_plan
from tests.fleet.run import Report, run_seed
from tests.fleet.weather import Fault

SEEDS = (1, 1000)
BATCH = 5
"""Seeds that a process takes at a time."""


@dataclass(slots=True)
class Outcome:
    """What is told of one run."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    failure: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Summary:
    """What is told of all."""

    seeds: int = 0
    failed: list[Outcome] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Take in a run."""
        self.seeds += 1
        self.counts.update(outcome.counts)
        self.seconds += outcome.seconds
        if outcome.failure:
            self.failed.append(outcome)

    def __str__(self) -> str:
        counts = self.counts
        faults = {fault: counts[fault] for fault in Fault if counts[fault]}
        listed = ", ".join(f"{number} {name}" for name, number in faults.items())
        words = "all promises kept" if not self.failed else f"{len(self.failed)} seeds FAILED"
        return (
            f"{self.seeds} seeds, {words}: {counts['workers']} workers, {counts['submit']} jobs "
            f"({', '.join(f'{counts[kind]} {kind}s' for kind in INTEGRATIONS if counts[kind])}), "
            f"{counts['pods']} pods begun or ended, {counts['act']} acts, "
            f"{counts['start']} restarts of managers ({counts['killed']} killed at a write, "
            f"{counts['lost lease']} lost the lease), {counts['stopped']} stopped for a while, "
            f"{counts['moved']} moves off drained workers, {counts['migrated']} for gangs, "
            f"{counts['gate opened']} gates opened, {counts['told']} notices "
            f"({counts['notice Saved']} saved, {counts['notice TimedOut']} timed out, "
            f"{counts['notice Rescinded']} rescinded), {counts['requests']} requests, "
            f"{counts['changes']} writes, {counts['virtual seconds'] // 3600} virtual hours in "
            f"{self.seconds:.0f} s of CPU; "
            f"{sum(faults.values())} faults: {listed}"
        )


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    parser.add_argument("--seed", type=int, help="play one, and print everything that happens")
    parser.add_argument("--seeds", default="", help="first-last; 1-1000 by default")
    parser.add_argument("--minutes", type=float, help="go on with new seeds; 0: for ever")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _play(options.seed)
    first, last = _parse_seeds(options.seeds)
    seeds: Iterable[int] = range(first, last + 1)
    if options.minutes is not None:
        seeds = _seeds_for(options.minutes, first)
    summary = Summary()
    for outcome in _run_all(seeds, options.processes):
        summary.add(outcome)
        if outcome.failure:
            _say(outcome.failure)
    _say(str(summary))
    return 1 if summary.failed else 0


def _parse_seeds(text: str) -> tuple[int, int]:
    if not text:
        return SEEDS
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _seeds_for(minutes: float, first: int) -> Iterator[int]:
    end = monotonic() + minutes * 60 if minutes > 0 else float("inf")
    return itertools.takewhile(lambda _: monotonic() < end, itertools.count(first))


def _run_all(seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
    """Yield the outcome of each seed, in the order in which they end."""
    left = iter(seeds)
    with ProcessPoolExecutor(processes, initializer=_prepare) as pool:
        running: set[Future[list[Outcome]]] = set()
        while True:
            while len(running) < processes * 2:
                batch = list(itertools.islice(left, BATCH))
                if not batch:
                    break
                running.add(pool.submit(_run_batch, batch))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield from future.result()


def _prepare() -> None:
    """Let the collector leave alone what lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _run_batch(seeds: list[int]) -> list[Outcome]:
    return [_run_one(seed) for seed in seeds]


def _run_one(seed: int) -> Outcome:
    try:
        report = run_seed(seed)
    except Exception:  # noqa: BLE001 - a failure of this seed; the others are run all the same
        return Outcome(seed, failure=_explain(seed, traceback.format_exc()))
    outcome = Outcome(seed, Counter(report.counts), seconds=report.seconds)
    outcome.counts.update(
        {
            "workers": len(report.plan.workers),
            "requests": report.requests,
            "changes": report.changes,
            "virtual seconds": int(report.virtual_seconds),
            **Counter(job.kind for job in report.plan.jobs),
        }
    )
    if report.breaches:
        words = "\n".join(map(str, report.breaches))
        outcome.failure = _explain(seed, words, until=report.breaches[0].at)
    return outcome


def _explain(seed: int, words: str, until: float = float("inf")) -> str:
    """Say what happened in a run that failed: its script so far, and how to see everything."""
    plan = make_seed_plan(seed)
    script = [f"{job.at:8.1f}  submit {job}" for job in plan.jobs if job.at <= until]
    script += [str(act) for act in plan.acts if act.at <= until]
    lines = (
        f"FAILED  {plan.describe()}",
        *sorted(script, key=lambda line: float(line.split()[0])),
        words,
        f"again, with everything that happens: make fleet SEED={seed}",
        "",
    )
    return "\n".join(lines)


def _play(seed: int) -> int:
    _say(make_seed_plan(seed).describe())
    report: Report = run_seed(seed, keep_log=True)
    _say("\n".join(report.lines))
    for breach in report.breaches:
        _say(f"BROKEN {breach}")
    return 1 if report.breaches else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
