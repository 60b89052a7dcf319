"""Learn runtimes and speeds of jobs from finished ones. Pure, and bounded.

Nothing is stored: the source is the finished Workloads that still exist on the manager and the
workers. Runs of a class on several flavors show how fast the class is on each.

The share of outliers is learned from finished jobs, separately for each basis of runtimes: an
outlier's runtime is nothing like the expected one. How likely a job is an outlier follows from its
runtime and the share so far (expectation maximization, job by job).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from statistics import fmean, median
from typing import TypeVar

from multiqueue.forecast.curve import UNKNOWN, Curve, summarize
from multiqueue.forecast.traits import FinishedRun, Traits
from multiqueue.forecast.usual import UsualSpeeds
from multiqueue.plugins.forecast import Basis, Runtime

T = TypeVar("T")

ENOUGH = 3
"""Fewest runs of a class whose spread allows a conclusion."""
FEW = (0.3, 3.0)
"""With fewer runs, a tenth of the jobs is shorter than this part of their mean, and a tenth longer:
users often submit several similar jobs at once (P-85)."""
MANY = 10
"""Fewest runs of any class that allow a conclusion."""
RUNS, FLAVORS, CLASSES = 64, 8, 2000
"""Limits of memory: runs per flavor (the last ones), flavors per class, classes (last seen)."""
SEEN = 50_000
"""Runs that are remembered as learned, so that a relist of a worker does not learn them again."""
REFERENCE = 1000
"""The speed of the reference hardware."""
GUESS = (0.7, 1.0, 1.3)
"""Quantiles of real runtimes as shares of declared ones, until some are known."""


class RuntimeHistory:
    """Runtimes of finished jobs, by class.

    Attributes:
        version: Grows with each run that is learned.
        usual: How fast jobs in general are by hardware.
    """

    def __init__(self) -> None:
        self.version = 0
        self.usual = UsualSpeeds()
        self._classes: OrderedDict[str, dict[str, deque[float]]] = OrderedDict()
        self._any: deque[float] = deque(maxlen=8 * RUNS)
        self._ratios: OrderedDict[str, deque[float]] = OrderedDict()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._outliers = Outliers()
        self._told: dict[tuple[object, ...], Runtime] = {}  # until the next run is learned
        self._of_any: Runtime | None = None

    def learn(self, run: FinishedRun) -> None:
        """Learn from a finished run, once."""
        if run.uid in self._seen:
            return
        _keep(self._seen, run.uid, None, SEEN)
        self.version += 1
        seconds = run.took.total_seconds()
        # Judge by what was known before this run: later jobs will be known no better.
        own = self.speeds(run.traits).get(run.flavor, REFERENCE)
        self._outliers.learn(self._say(run.traits), seconds * own / REFERENCE)
        flavors = self._classes.get(run.traits.job_class, {})
        _keep(self._classes, run.traits.job_class, flavors, CLASSES)
        if run.flavor in flavors or len(flavors) < FLAVORS:
            flavors.setdefault(run.flavor, deque(maxlen=RUNS)).append(seconds)
        self._any.append(seconds)
        self.usual.learn(run, self.speeds(run.traits))
        declared = run.traits.declared
        if declared is not None:
            speed = run.traits.speeds.get(run.flavor, REFERENCE)
            ratios = self._ratios.get(run.traits.namespace, deque(maxlen=RUNS))
            _keep(self._ratios, run.traits.namespace, ratios, CLASSES)
            ratios.append(seconds * speed / REFERENCE / declared.total_seconds())
        self._told.clear()
        self._of_any = None

    def speeds(self, traits: Traits) -> dict[str, int]:
        """Return how fast a job is by flavor, in thousandths; empty if nothing is known.

        Declared speeds have precedence. Otherwise the flavor with most runs of its class is the
        reference.
        """
        if traits.speeds:
            return dict(traits.speeds)
        runs = self._classes.get(traits.job_class, {})
        known = {name: median(found) for name, found in runs.items() if len(found) >= ENOUGH}
        if len(known) < 2:
            return {}
        reference = max(sorted(known), key=lambda name: len(runs[name]))
        return {
            name: max(1, round(REFERENCE * known[reference] / seconds))
            for name, seconds in sorted(known.items())
        }

    def runtime(self, traits: Traits) -> Runtime:
        """Return how long a job runs on the reference hardware, with the basis."""
        asked = traits.job_class, traits.declared, traits.limit, *sorted(traits.speeds.items())
        found = self._told.get(asked)
        if found is None:
            found = self._say(traits)
            found = found if traits.limit is not None else self._outliers.mark(found)
            if len(self._told) < CLASSES:
                self._told[asked] = found
        return found

    def _say(self, traits: Traits) -> Runtime:
        found = self._declared(traits) or self._historical(traits) or self._limited(traits)
        if found is None:
            found = self._assumed()
        return _within(found, traits.limit)

    def _assumed(self) -> Runtime:
        if len(self._any) < MANY:
            return UNKNOWN
        if self._of_any is None:
            self._of_any = summarize(list(self._any), Basis.ASSUMED)
        return self._of_any

    def _declared(self, traits: Traits) -> Runtime | None:
        if traits.declared is None:
            return None
        ratios = self._ratios.get(traits.namespace, ())
        if len(ratios) < MANY:
            low, middle, high = (traits.declared * share for share in GUESS)
            return Runtime(expected=middle, low=low, high=high, basis=Basis.DECLARED)
        seconds = traits.declared.total_seconds()
        return summarize([ratio * seconds for ratio in ratios], Basis.DECLARED)

    def _historical(self, traits: Traits) -> Runtime | None:
        speeds = self.speeds(traits)
        runs = self._classes.get(traits.job_class, {})
        seconds = [
            value * speeds.get(flavor, REFERENCE) / REFERENCE
            for flavor, found in runs.items()
            for value in found
        ]
        if not seconds or len(seconds) >= ENOUGH:
            return summarize(seconds) if seconds else None
        found = timedelta(seconds=fmean(seconds))
        low, high = (found * share for share in FEW)
        return Runtime(expected=found, low=low, high=high, basis=Basis.HISTORICAL)

    def _limited(self, traits: Traits) -> Runtime | None:
        limit = traits.limit
        if limit is None:
            return None
        return Runtime(expected=limit / 2, low=limit / 10, high=limit, basis=Basis.LIMITED)


def speed_on(speeds: Mapping[str, int], flavor: str, labels: Iterable[str] = ()) -> int:
    """Return the speed on a flavor: by its name, else by the value of one of its node labels."""
    for name in (flavor, *sorted(labels)):
        if name in speeds:
            return speeds[name]
    return REFERENCE


def _within(runtime: Runtime, limit: timedelta | None) -> Runtime:
    if limit is None or runtime.high <= limit:
        return runtime
    return Runtime(
        expected=min(runtime.expected, limit),
        low=min(runtime.low, limit),
        high=limit,
        basis=runtime.basis,
    )


def _keep(kept: OrderedDict[str, T], key: str, value: T, most: int) -> None:
    """Store a value as the newest, and drop the oldest if there are too many."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


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
