"""Whether a Workload still matches what its job requests. Pure.

Parity: E-182. Counts, containers and init containers are compared, and tolerations while the
Workload is not admitted. Other changes of a template need no new admission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from multiqueue.api.alternatives import find_alternatives
from multiqueue.api.v1beta2 import PodSet, ResourceFlavor, Workload
from multiqueue.api.workload_state import has_quota, is_admitted
from multiqueue.jobs.framework.pod_set_info import (
    FlavorNotFoundError,
    StartConflictError,
    apply_info,
    build_infos,
)
from multiqueue.lib.quantity import QuantityError, parse_quantity

_RESOURCE_LISTS = ("requests", "limits")


def is_equivalent(
    pod_sets: Sequence[PodSet],
    workload: Workload,
    *,
    suspended: bool,
    max_execution_seconds: int | None,
    find_flavor: Callable[[str], ResourceFlavor | None],
    elastic: bool = False,
) -> bool:
    """Return whether a Workload stands for a job with these pod sets.

    For an elastic job, counts are not compared. Nor are tolerations while it runs, because the
    admission of an earlier slice added them.
    """
    if elastic:
        pod_sets = _resized(pod_sets, workload.spec.pod_sets)
    if workload.spec.maximum_execution_time_seconds != max_execution_seconds:
        return False
    ignore_tolerations = is_admitted(workload.status) or (elastic and not suspended)
    # The cheap comparison first: a waiting Workload has the pod sets that it was made from.
    if suspended and _same(pod_sets, workload.spec.pod_sets, ignore_tolerations):
        return True
    running = _running_pod_sets(workload, find_flavor)
    if running is None:
        return not suspended and _same(pod_sets, workload.spec.pod_sets, ignore_tolerations)
    if elastic:
        running = _resized(running, workload.spec.pod_sets)
    return _same(pod_sets, running, ignore_tolerations)


def _resized(pod_sets: Sequence[PodSet], like: Sequence[PodSet]) -> tuple[PodSet, ...]:
    """Return the pod sets with the other counts, if both have the same pod sets."""
    counts = {pod_set.name: pod_set.count for pod_set in like}
    return tuple(
        msgspec.structs.replace(pod_set, count=counts.get(pod_set.name, pod_set.count))
        for pod_set in pod_sets
    )


def _running_pod_sets(
    workload: Workload, find_flavor: Callable[[str], ResourceFlavor | None]
) -> tuple[PodSet, ...] | None:
    """Return the pod sets that the job has once it was started with this admission.

    Their counts are those of the admission only if a start sets them. Otherwise the admission may
    lack pods that ended in an earlier run, while the job still has all that it requests.
    """
    if not has_quota(workload.status) or workload.status.admission is None:
        return None
    has_alternatives = bool(find_alternatives(workload.metadata.annotations))
    try:
        infos = build_infos(workload, find_flavor)
        return tuple(
            msgspec.structs.replace(
                pod_set,
                count=info.count if has_alternatives or pod_set.min_count else pod_set.count,
                template=apply_info(pod_set.template, info),
            )
            for pod_set, info in zip(workload.spec.pod_sets, infos, strict=True)
        )
    except (FlavorNotFoundError, StartConflictError):
        return None


def _same(ours: Sequence[PodSet], theirs: Sequence[PodSet], ignore_tolerations: bool) -> bool:  # noqa: FBT001
    return len(ours) == len(theirs) and all(
        a.count == b.count
        and a.min_count == b.min_count
        and _same_template(a.template, b.template, ignore_tolerations)
        for a, b in zip(ours, theirs, strict=True)
    )


def _same_template(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    ignore_tolerations: bool,  # noqa: FBT001
) -> bool:
    ours, theirs = a.get("spec") or {}, b.get("spec") or {}
    if not ignore_tolerations and (ours.get("tolerations") or []) != (
        theirs.get("tolerations") or []
    ):
        return False
    return all(
        _same_containers(ours.get(field) or [], theirs.get(field) or [])
        for field in ("initContainers", "containers")
    )


def _same_containers(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> bool:
    if a == b:
        return True
    return len(a) == len(b) and all(
        _without_quantities(ours) == _without_quantities(theirs)
        and _quantities(ours) == _quantities(theirs)
        for ours, theirs in zip(a, b, strict=True)
    )


def _without_quantities(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = container.get("resources") or {}
    others = {key: value for key, value in resources.items() if key not in _RESOURCE_LISTS}
    return {**container, "resources": others}


def _quantities(container: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return requests and limits by value, so that ``1`` and ``1000m`` are equal."""
    resources = container.get("resources") or {}
    return {
        field: {name: _value(raw) for name, raw in (resources.get(field) or {}).items()}
        for field in _RESOURCE_LISTS
    }


def _value(raw: Any) -> Any:
    try:
        return parse_quantity(raw)
    except QuantityError:
        return raw
