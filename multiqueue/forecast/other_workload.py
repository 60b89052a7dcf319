"""A Workload of somebody else on a worker: as little of it as the replica needs. Pure.

Thousands of them are held per worker, so pod templates and conditions go once they were read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from multiqueue.api import v1beta2 as api
from multiqueue.api.workload_state import is_finished
from multiqueue.forecast.check_times import read_check_time
from multiqueue.forecast.traits import FinishedRun, Traits, read_finished, read_traits
from multiqueue.kube.store import ObjectKeyAndVersion, identify
from multiqueue.model.build import BuildOptions, build_workload
from multiqueue.model.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWorkload:
    """What is kept.

    Attributes:
        identity: Key and version.
        traits: By what its runtime is known; None once it has ended.
        workload: As the engine sees it; None once it has ended.
        run: What its end tells.
        check_time: How long its checks took.
    """

    identity: ObjectKeyAndVersion
    traits: Traits | None = None
    workload: Workload | None = None
    run: FinishedRun | None = None
    check_time: timedelta | None = None


def read_other_workload(obj: api.Workload, options: BuildOptions) -> OtherWorkload:
    """Return what is kept of a Workload."""
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
