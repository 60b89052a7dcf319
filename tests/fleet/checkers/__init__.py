"""The promises, each a small checker of its own.

A checker hears of every change of an object and of pods that begin and end, looks at the world
every few seconds, and once more when all is healed and done. What it finds broken it says in words.
The README lists them.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fleet.checkers.checker import Checker, Report
from tests.fleet.checkers.dispatching import (
    CopiesAreNominated,
    OneWorkerPreempts,
    RoundsAreOrderly,
)
from tests.fleet.checkers.drains import DrainsAreOrderly
from tests.fleet.checkers.fleet import NobodyWaitsForTheStuck, NothingForeignTouched, OneLeads
from tests.fleet.checkers.hardware import PodsAreCounted
from tests.fleet.checkers.notices import NoticesAreKept
from tests.fleet.checkers.rest import NoOrphans, NothingIsLost, RestIsQuiet
from tests.fleet.checkers.running import (
    AtMostOneRuns,
    FinishedIsFinal,
    GangsStartWhole,
    QuotaWhileRunning,
    ReturnedIsFenced,
)
from tests.fleet.checkers.workloads import (
    CheckGoesItsWay,
    EvictionsHaveCauses,
    GraceIsKept,
    LatchIsOrderly,
)
from tests.fleet.world import FleetWorld

__all__ = ["Checker", "RestIsQuiet", "build_checkers"]


def build_checkers(world: FleetWorld, report: Callable[[str, str], None]) -> list[Checker]:
    """Return all checkers of a run."""

    def for_(kind: type[Checker]) -> Report:
        return lambda words: report(kind.__name__, words)

    one = AtMostOneRuns(world, for_(AtMostOneRuns))
    waiting = NobodyWaitsForTheStuck(world, for_(NobodyWaitsForTheStuck))
    plain = (
        LatchIsOrderly,
        NothingForeignTouched,
        FinishedIsFinal,
        GangsStartWhole,
        CheckGoesItsWay,
        GraceIsKept,
        EvictionsHaveCauses,
        OneLeads,
        CopiesAreNominated,
        OneWorkerPreempts,
        DrainsAreOrderly,
        PodsAreCounted,
        NoticesAreKept,
        NothingIsLost,
        NoOrphans,
        RestIsQuiet,
    )
    return [
        one,
        ReturnedIsFenced(world, for_(ReturnedIsFenced), one),
        QuotaWhileRunning(world, for_(QuotaWhileRunning), one),
        waiting,
        RoundsAreOrderly(world, for_(RoundsAreOrderly), waiting),
        *(kind(world, for_(kind)) for kind in plain),
    ]
