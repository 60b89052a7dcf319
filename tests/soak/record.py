"""What a soak measures, and whether it is flat. Pure but for the reading of /proc."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

WARM_UP = 1 / 3
"""The share of a process's life before its memory is judged: caches fill, every kind comes."""
GROWTH_BYTES = 8 * 2**20
GROWTH_SHARE = 0.08
"""Memory may grow by so much over the judged time, however long it is; the larger of both counts.
What remembers a stated number of things fills in the warm-up, so a longer run allows no more."""
BLOCKS = 8
"""Parts of the judged time whose means are fitted: samples that follow each other are alike, so
they would make the error look too small."""
ERRORS = 2.0
"""Growth counts if it exceeds what is allowed by so many standard errors."""
MORE_HANDLES = 12
"""Open handles may rise by so many: connections to workers that are in flight."""
SLOWER, SLOWER_SECONDS = 2.0, 5.0
"""The median wait may grow by this factor and these seconds between first and last third."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a process: seconds since the beginning, resident bytes, open handles."""

    at: float
    pid: int
    memory: int
    handles: int


@dataclass(slots=True)
class SoakRecord:
    """All that was measured: samples by process, and the waits of jobs by time of submission."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    waits: list[tuple[float, float]] = field(default_factory=list)

    def sample(self, at: float, pids: Mapping[str, int]) -> None:
        """Look at all processes; one that is just being started again is left out."""
        for name, pid in pids.items():
            try:
                memory = read_memory(pid)
                handles = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
            except (OSError, IndexError):
                continue
            self.samples.setdefault(name, []).append(Sample(at, pid, memory, handles))


def read_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise IndexError(pid)


class Slope(NamedTuple):
    """A slope in bytes per second, and its standard error."""

    value: float
    error: float


def fit_slope(samples: Sequence[Sample]) -> Slope:
    """Fit a line through the means of blocks of samples (least squares)."""
    if len({sample.at for sample in samples}) < BLOCKS:
        return Slope(0.0, math.inf)
    edges = [len(samples) * number // BLOCKS for number in range(BLOCKS + 1)]
    blocks = [samples[begin:end] for begin, end in itertools.pairwise(edges)]
    times = [statistics.fmean(each.at for each in block) for block in blocks]
    means = [statistics.fmean(each.memory for each in block) for block in blocks]
    slope, start = statistics.linear_regression(times, means)
    middle = statistics.fmean(times)
    wrong = sum((y - start - slope * x) ** 2 for x, y in zip(times, means, strict=True))
    spread = sum((x - middle) ** 2 for x in times)
    return Slope(slope, math.sqrt(wrong / (BLOCKS - 2) / spread))


def last_life(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples after the warm-up of the process that lives last."""
    life = [each for each in samples if each.pid == samples[-1].pid]
    since = life[0].at + WARM_UP * (life[-1].at - life[0].at)
    return [each for each in life if each.at >= since]


def find_growth(record: SoakRecord, judged: Iterable[str]) -> list[str]:
    """Return which processes grow."""
    found = []
    for name in judged:
        life = last_life(record.samples[name])
        seconds = life[-1].at - life[0].at
        slope = fit_slope(life)
        allowed = max(GROWTH_BYTES, GROWTH_SHARE * life[0].memory)
        if (slope.value - ERRORS * slope.error) * seconds > allowed:
            growth, error = slope.value * seconds / 2**20, slope.error * seconds / 2**20
            found.append(
                f"{name}: memory grew by {growth:.1f} ± {error:.1f} MiB in {seconds:.0f} s, "
                f"allowed are {allowed / 2**20:.1f}"
            )
        third = max(1, len(life) // 3)
        before = max(each.handles for each in life[:third])
        after = max(each.handles for each in life[-third:])
        if after > before + MORE_HANDLES:
            found.append(f"{name}: open handles rose from {before} to {after}")
    return found


def find_slowdown(record: SoakRecord) -> list[str]:
    """Return whether jobs wait longer at the end than at the beginning."""
    waits = [wait for _, wait in sorted(record.waits)]
    third = len(waits) // 3
    if not third:
        return ["too few jobs were admitted to compare their waits"]
    first, last = statistics.median(waits[:third]), statistics.median(waits[-third:])
    if last <= first * SLOWER + SLOWER_SECONDS:
        return []
    return [f"the median wait rose from {first:.1f} s to {last:.1f} s"]


def describe(record: SoakRecord) -> str:
    """Return the figures as a table."""
    lines = [f"{'process':<14}{'RSS MiB first/median/last':>28}{'slope MiB/h':>16}{'handles':>10}"]
    for name, samples in sorted(record.samples.items()):
        life = last_life(samples)
        if not life:
            continue
        mib = [each.memory / 2**20 for each in life]
        slope, error = (each * 3600 / 2**20 for each in fit_slope(life))
        handles = f"{life[0].handles}-{life[-1].handles}"
        first, median = mib[0], statistics.median(mib)
        memory, growth = f"{first:.0f}/{median:.0f}/{mib[-1]:.0f}", f"{slope:.1f} ± {error:.1f}"
        lines.append(f"{name:<14}{memory:>28}{growth:>16}{handles:>10}")
    waits = sorted(wait for _, wait in record.waits)
    if waits:
        at = {
            share: waits[min(len(waits) - 1, int(share * len(waits)))] for share in (0.5, 0.9, 0.99)
        }
        lines.append(
            f"{len(waits)} admissions; wait p50 {at[0.5]:.1f} s, p90 {at[0.9]:.1f} s, "
            f"p99 {at[0.99]:.1f} s"
        )
    return "\n".join(lines)
