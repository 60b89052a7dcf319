"""How many jobs turn out to be nothing like what was said of them. Pure.

Learned from finished jobs, by where their runtimes were known from: each is as likely a stray as
its runtime says, given what was learned before (expectation and maximisation, job by job).
"""

from __future__ import annotations

from dataclasses import replace

from multiqueue.forecast.curve import Curve
from multiqueue.plugins.forecast import Basis, Runtime

BEFORE = 0.1
"""What is believed of jobs before any has ended, as firmly as `WEIGHT` of them would say it."""
WEIGHT = 10.0
MOST = 500.0
"""As many jobs are remembered; of older ones less and less."""


class Outliers:
    """The part of the jobs that are strays, by basis."""

    def __init__(self) -> None:
        self._found: dict[Basis, tuple[float, float]] = {}

    def mark(self, runtime: Runtime) -> Runtime:
        """Return a runtime with how many are nothing like it."""
        outliers, jobs = self._found.get(runtime.basis, (BEFORE * WEIGHT, WEIGHT))
        return replace(runtime, astray=outliers / jobs)

    def learn(self, said: Runtime, seconds: float) -> None:
        """Take note of how long a job took, of which that was said."""
        outliers, jobs = self._found.get(said.basis, (BEFORE * WEIGHT, WEIGHT))
        keep = min(1.0, MOST / (jobs + 1.0))
        found = Curve.of(self.mark(said)).tell_astray(seconds)
        self._found[said.basis] = (keep * (outliers + found), keep * (jobs + 1.0))
