"""Learn the share of outliers: jobs whose runtime is nothing like the expected one. Pure.

The share is learned from finished jobs, separately for each basis of runtimes. How likely a job is
an outlier follows from its runtime and the share so far (expectation maximization, job by job).
"""

from __future__ import annotations

from dataclasses import replace

from multiqueue.forecast.curve import Curve
from multiqueue.plugins.forecast import Basis, Runtime

BEFORE = 0.1
"""The assumed share before any job has ended; it counts as much as `WEIGHT` jobs."""
WEIGHT = 10.0
MOST = 500.0
"""About as many jobs are remembered; older jobs fade."""


class Outliers:
    """The share of outliers among jobs, by basis."""

    def __init__(self) -> None:
        self._found: dict[Basis, tuple[float, float]] = {}

    def mark(self, runtime: Runtime) -> Runtime:
        """Return a runtime with its share of outliers."""
        outliers, jobs = self._found.get(runtime.basis, (BEFORE * WEIGHT, WEIGHT))
        return replace(runtime, astray=outliers / jobs)

    def learn(self, said: Runtime, seconds: float) -> None:
        """Learn from the time that a job with this expected runtime took."""
        outliers, jobs = self._found.get(said.basis, (BEFORE * WEIGHT, WEIGHT))
        keep = min(1.0, MOST / (jobs + 1.0))
        found = Curve.of(self.mark(said)).tell_astray(seconds)
        self._found[said.basis] = (keep * (outliers + found), keep * (jobs + 1.0))
