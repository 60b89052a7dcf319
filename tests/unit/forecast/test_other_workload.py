"""How long the checks of a worker take, and what that means for a start."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from multiqueue.api.v1beta2 import Admission, AdmissionCheckState, WorkloadStatus
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import reserve_quota, sync_admitted
from multiqueue.forecast.other_workload import CheckTimes, read_check_time
from multiqueue.plugins.forecast import Forecast, Prospect, StartEstimate
from tests.builders.engine import T0, seconds

NOW = StartEstimate(at=T0, earliest=T0, latest=T0)
FITS = Forecast(prospect=Prospect.FITS, reason="fits", start=NOW)
CHECKS = ("machines",)


def learned(*taken: int) -> CheckTimes:
    times = CheckTimes()
    for index, took in enumerate(taken):
        times.learn("cq", f"uid-{index}", seconds(took))
    return times


def make_status(*, ready: bool = True, admitted_after: float | None = 90) -> WorkloadStatus:
    admission = Admission(cluster_queue="cq", pod_set_assignments=())
    status = reserve_quota(WorkloadStatus(), admission, now=T0)
    check = AdmissionCheckState(
        name="machines",
        state="Ready" if ready else "Pending",
        last_transition_time=format_time(T0),
        message="",
    )
    status = replace_checks(status, check)
    if admitted_after is None:
        return status
    return sync_admitted(status, now=T0 + seconds(admitted_after))


def replace_checks(status: WorkloadStatus, *checks: AdmissionCheckState) -> WorkloadStatus:
    return msgspec.structs.replace(status, admission_checks=checks)


def test_checks_take_from_the_reservation_to_the_admission() -> None:
    assert read_check_time(make_status()) == seconds(90)
    assert read_check_time(make_status(admitted_after=None)) is None
    assert read_check_time(replace_checks(make_status())) is None


def test_a_start_comes_as_much_later_as_checks_took_for_others() -> None:
    found = learned(60, 100, 80, 300).apply(FITS, "cq", CHECKS)
    assert found.start == StartEstimate(
        at=T0 + seconds(100), earliest=T0 + seconds(60), latest=T0 + seconds(300)
    )
    assert found.reason == "fits; then its checks decide (machines), which takes about 100 s"


def test_what_has_waited_for_long_waits_for_the_rest_of_those_that_took_longer() -> None:
    times = learned(60, 100, 200, 300)
    start = times.apply(FITS, "cq", CHECKS, seconds(90)).start
    assert start is not None
    assert start.at == T0 + seconds(110)
    assert times.apply(FITS, "cq", CHECKS, seconds(150)).start is None


def test_of_few_nothing_is_said() -> None:
    times = learned(60, 100)
    times.learn("cq", "uid-1", seconds(100))
    found = times.apply(FITS, "cq", CHECKS)
    assert (found.start, "nobody knows for how long" in found.reason) == (None, True)
    assert learned(60, 60, 60).apply(FITS, "other", CHECKS).start is None


def test_without_checks_or_without_room_nothing_is_added() -> None:
    times = learned(60, 60, 60)
    never = replace(FITS, prospect=Prospect.NEVER, start=None)
    assert times.apply(FITS, "cq", ()) == FITS
    assert times.apply(never, "cq", CHECKS) == never
