"""Ranges of estimated starts in a simulation are widened by how earlier ones held."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from multiqueue.plugins import Forecast, Nomination, Prospect, StartEstimate
from multiqueue.plugins.testing import T0, make_cluster, make_view
from multiqueue.simulation.estimates import StartEstimates
from multiqueue.simulation.manager import Managed
from multiqueue.simulation.progress import Guess, Progress
from multiqueue.simulation.queues import make_workload
from multiqueue.views.calibration import ENOUGH
from tests.unit.simulation.worlds import make_trace_job

MINUTE = timedelta(minutes=1)
START = StartEstimate(at=T0 + 5 * MINUTE, earliest=T0 + 4 * MINUTE, latest=T0 + 6 * MINUTE)


def wait(estimates: StartEstimates, name: str, *, late_by: timedelta) -> Guess:
    """Have a job wait on a cluster where it is expected after five minutes, and start later."""
    job = make_trace_job(name)
    managed = Managed(workload=make_workload(job, T0), progress=Progress(job=job), submitted_at=T0)
    forecast = Forecast(prospect=Prospect.WAITS, reason="waits", start=START)
    view = make_view(clusters=[replace(make_cluster("a", used=8), forecast=forecast)])
    estimates.note(managed, view, Nomination(clusters=("a",)))
    estimates.compare(managed, "a", START.at + late_by)
    (guess,) = managed.guesses
    return guess


def test_ranges_are_widened_once_enough_starts_were_outside() -> None:
    estimates = StartEstimates()
    first = [wait(estimates, f"job-{n}", late_by=3.5 * MINUTE) for n in range(ENOUGH)]
    assert {guess.latest - guess.at for guess in first} == {60.0}
    assert not any(guess.is_inside for guess in first)
    widened = wait(estimates, "job", late_by=3.5 * MINUTE)
    assert widened.latest - widened.at == 180.0, "half a minute never counts"
    assert widened.is_inside
