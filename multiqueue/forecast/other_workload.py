"""A Workload of another owner on a worker, reduced to what the replica needs. Pure.

A worker may have thousands of them, so pod templates and conditions are dropped after reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from multiqueue.api import v1beta2 as api
from multiqueue.api.workload_state import is_finished
from multiqueue.forecast.check_times import read_check_time
from multiqueue.forecast.traits import FinishedRun, Traits, read_finished, read_traits
from multiqueue.kube.store import ObjectKeyAndVersion, identify
from multiqueue.model.build_workload import BuildOptions, build_workload
from multiqueue.model.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWorkload:
    """The parts of a Workload that are kept.

    Attributes:
        identity: Its key and version.
        traits: What predicts its runtime; None once it has ended.
        workload: The Workload as the engine sees it; None once it has ended.
        run: Its finished run; None if there is none.
        check_time: How long its checks took; None if unknown.
    """

    identity: ObjectKeyAndVersion
    traits: Traits | None = None
    workload: Workload | None = None
    run: FinishedRun | None = None
    check_time: timedelta | None = None


def read_other_workload(obj: api.Workload, options: BuildOptions) -> OtherWorkload:
    """Return the parts of a Workload that are kept."""
    built = build_workload(obj, options)
    traits = read_traits(obj, obj.metadata.annotations, built.pod_sets)
    if is_finished(obj.status):
        return OtherWorkload(identity=identify(obj), run=read_finished(obj, traits))
    return OtherWorkload(
        identity=identify(obj),
        traits=traits,
        workload=built,
        check_time=read_check_time(obj.status),
    )
