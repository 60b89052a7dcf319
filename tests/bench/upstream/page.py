"""Turn runs into a section of docs/performance.md: misses first, then all figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from tests.bench.upstream.run import OURS, QUEUE_STATUSES, UPSTREAM
from tests.bench.upstream.server import WRITES

Run = Mapping[str, Any]
"""One run as `tests.bench.upstream.run.measure` returns it."""
MOST_KINDS = 5


def writes_per_admission(run: Run, *kinds: str) -> float:
    """Return the manager's writes of these kinds for one admission; of all kinds without any."""
    writes = sum(
        count
        for name, count in run["managerWrites"].items()
        if not kinds or name.split(" ", 1)[1] in kinds
    )
    return float(writes / run["admissions"]) if run["admissions"] else 0.0


def status_writes_apart_from_evictions(run: Run) -> float:
    """Return writes of Workload statuses for one admission; an eviction is one more."""
    of_evictions = run["evictions"] / run["admissions"] if run["admissions"] else 0.0
    return writes_per_admission(run, "workloads/status") - of_evictions


def told(run: Run) -> float:
    """Return the Events and statuses of queues for one admission until the last Workload ended."""
    return float(run["toldUntilTheEnd"] / run["admissions"]) if run["admissions"] else 0.0


def round_trips(run: Run) -> float:
    """Return how many writes of a status the slowest hundredth of the admissions took."""
    return float(run["secondsToAnswerP99"] * 1000 / run["statusWriteMilliseconds"])


def manager_milliseconds(run: Run) -> float:
    """Return the manager's CPU time for one Workload."""
    return float(run["processes"]["manager"]["cpuSeconds"] / run["workloads"] * 1000)


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that is to stay below a value, or above it."""

    name: str
    figure: Callable[[Run], float]
    value: float
    is_ratio: bool = True
    """The value bounds ours divided by upstream's."""
    is_least: bool = False

    def is_reached(self, reached: float) -> bool:
        """Whether this is good enough."""
        return reached >= self.value if self.is_least else reached <= self.value


def find_goals(limit: int) -> tuple[Goal, ...]:
    """Return the goals of runs with this limit of requests per second; 0 is none."""
    return (
        Goal("wall, ours / upstream", lambda run: run["wallSeconds"], 0.5 if limit else 0.6),
        Goal("evictions, ours / upstream", lambda run: run["evictions"], 1.0),
        Goal("CPU of the manager, ours / upstream", manager_milliseconds, 1.0),
        Goal(
            "writes of Workload statuses per admission, evictions apart",
            status_writes_apart_from_evictions,
            1.2,
            is_ratio=False,
        ),
        Goal("Events and queue statuses until the last end, per admission", told, 0.1, False),
        Goal("Events per admission", lambda run: writes_per_admission(run, "events"), 1.0, False),
        Goal(
            "writes of queue statuses per admission",
            lambda run: writes_per_admission(run, *QUEUE_STATUSES),
            0.1,
            is_ratio=False,
        ),
        Goal(
            "round trips from room to the admission's answer, p99", round_trips, 2.0, is_ratio=False
        ),
        Goal(
            "usage while work waits",
            lambda run: run["usageWhileWorkWaits"],
            0.9,
            is_ratio=False,
            is_least=True,
        ),
    )


def render(report: Mapping[str, Any]) -> str:
    """Return the section of one generator, in Markdown.

    Args:
        report: As it is written to the JSON: machine, versions, command, and runs of one generator.
    """
    runs: Sequence[Run] = report["runs"]
    first = runs[0]
    share = "" if first["part"] == 1 else f", {first['part']:.0%} of its Workloads"
    lines = [
        f"## {first['generator']}: {first['workloads']:,} Workloads{share}",
        "",
        f"`{report['command']}` on {report['date']}, commit {report['commit']}."
        f" {report['machine']}. {report['versions']}. Load average before and after each run: "
        + "; ".join(f"{run['loadBefore']} and {run['loadAfter']}" for run in runs)
        + ".",
        "",
    ]
    limits = list(dict.fromkeys(run["limit"] for run in runs))
    lines += _render_goals(runs, limits)
    for limit in limits:
        lines += ["", *_render_figures([run for run in runs if run["limit"] == limit], limit)]
    return "\n".join(lines) + "\n"


def _render_goals(runs: Sequence[Run], limits: Sequence[int]) -> list[str]:
    rows = []
    for limit in limits:
        mine = _of(runs, OURS, limit)
        theirs = _of(runs, UPSTREAM, limit)
        for goal in find_goals(limit):
            if not mine or (goal.is_ratio and not theirs):
                continue
            reached = _reached(goal, mine, theirs)
            sign = ">=" if goal.is_least else "<="
            word = "reached" if goal.is_reached(reached) else "**missed**"
            rows.append(
                f"| {_name(limit)} | {goal.name} | {sign} {goal.value} | {reached:.2f} | {word} |"
            )
    rows.sort(key=lambda row: "missed" not in row)
    return ["| limit | figure | goal | measured | |", "|---|---|---|---|---|", *rows]


def _reached(goal: Goal, mine: Sequence[Run], theirs: Sequence[Run]) -> float:
    """Return the mean over the rounds, or the ratio of the means; 1 if nothing is measured."""
    value = mean(goal.figure(run) for run in mine)
    if not goal.is_ratio:
        return value
    other = mean(goal.figure(run) for run in theirs)
    if other == 0:
        return 1.0 if value == 0 else float("inf")
    return value / other


def _render_figures(runs: Sequence[Run], limit: int) -> list[str]:
    mine, theirs = _of(runs, OURS, limit), _of(runs, UPSTREAM, limit)
    rows: list[tuple[str, Callable[[Run], str]]] = [
        ("wall", lambda run: f"{run['wallSeconds']:.0f} s"),
        ("usage while work waits", lambda run: f"{run['usageWhileWorkWaits']:.0%}"),
        *((f"time to admission, {name}", _waits(name)) for name in runs[0]["secondsToAdmission"]),
        ("admissions", lambda run: f"{run['admissions']:,}"),
        ("evictions", lambda run: f"{run['evictions']:,}"),
        ("the manager's writes per admission", lambda run: f"{writes_per_admission(run):.2f}"),
        *((f"- {kind}", _writes(kind)) for kind in _most_written(runs)),
        ("Events and queue statuses until the last end", lambda run: f"{told(run):.2f}"),
        ("refused because of a conflict", lambda run: f"{run['conflicts']:,}"),
        ("a write of a Workload's status", lambda run: f"{run['statusWriteMilliseconds']:.0f} ms"),
        ("p99 from room to the admission's answer", _show_seconds_to_answer),
        *((f"CPU, peak memory: {name}", _process(name)) for name in runs[0]["processes"]),
    ]
    lines = [f"### {_name(limit).capitalize()}", "", "| | ours | upstream |", "|---|---|---|"]
    for name, show in rows:
        cells = (", ".join(show(run) for run in part) or "not run" for part in (mine, theirs))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _show_seconds_to_answer(run: Run) -> str:
    seconds = run["secondsToAnswerP99"]
    return "not measured" if seconds is None else f"{seconds:.2f} s"


def _waits(name: str) -> Callable[[Run], str]:
    return lambda run: f"{run['secondsToAdmission'].get(name, 0):.1f} s"


def _writes(kind: str) -> Callable[[Run], str]:
    def show(run: Run) -> str:
        verbs = {
            verb: run["managerWrites"].get(f"{verb} {kind}", 0) / run["admissions"]
            for verb in sorted(WRITES)
        }
        return " + ".join(f"{each:.2f} {verb}" for verb, each in verbs.items() if each) or "0"

    return show


def _process(name: str) -> Callable[[Run], str]:
    return lambda run: (
        f"{run['processes'][name]['cpuSeconds']:.1f} s {run['processes'][name]['peakMiB']} MiB"
    )


def _most_written(runs: Sequence[Run]) -> list[str]:
    totals: Counter[str] = Counter()
    for run in runs:
        for name, count in run["managerWrites"].items():
            totals[name.split(" ", 1)[1]] += count
    return [kind for kind, _ in totals.most_common(MOST_KINDS)]


def _of(runs: Sequence[Run], program: str, limit: int) -> list[Run]:
    return [run for run in runs if (run["program"], run["limit"]) == (program, limit)]


def _name(limit: int) -> str:
    return f"{limit} requests per second" if limit else "no limit"


def replace_section(page: str, name: str, section: str) -> str:
    """Return the page with the section of this generator replaced, or added at the end."""
    begin, end = f"<!-- {name}: begin, written by make bench-upstream -->", f"<!-- {name}: end -->"
    whole = f"{begin}\n{section}{end}\n"
    old = re.compile(re.escape(begin) + ".*?" + re.escape(end) + "\n", re.DOTALL)
    if old.search(page):
        return old.sub(lambda _: whole, page)
    return f"{page.rstrip()}\n\n{whole}"
