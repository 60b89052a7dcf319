"""Which ProvisioningRequest decides the state of a check. Pure. Parity: E-155."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.api import names
from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.admission_check import ProvisioningRequestConfigSpec
from multiqueue.api.workload_state import is_admitted
from multiqueue.controllers.provisioning.demand import is_needed
from multiqueue.controllers.provisioning.naming import find_attempt
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView


def pick_requests(view: ProvisioningView) -> Mapping[str, ProvisioningRequest]:
    """Return the request of each check, by the check's name; checks without one are absent.

    Of the requests that match the configuration, the one with the highest attempt is used.

    Deviates: a Ready check keeps its request even if the configuration changes, and so does
    every check of an admitted Workload whose configuration is gone. The reference deletes the
    request, and takes the capacity away from the running job.

    Raises:
        InconsistentAssignmentError: the admission lacks a pod set.
    """
    picked = {}
    for check in view.checks:
        candidates = [
            (attempt, request)
            for request in view.requests
            if not request.metadata.deletion_timestamp
            and (attempt := attempt_of(view, check, request)) is not None
            and _is_usable(view, check, request)
        ]
        if candidates:
            picked[check.name] = max(candidates, key=lambda pair: pair[0])[1]
    return picked


def attempt_of(
    view: ProvisioningView, check: ProvisioningCheck, request: ProvisioningRequest
) -> int | None:
    """Return the attempt of a check that a request is; None if it belongs to another check."""
    retries = view.state_of(check).retry_count or 0
    return find_attempt(
        request.metadata.name,
        view.workload.metadata.name,
        check.name,
        highest=max(check.limit, retries) + 1,
    )


def build_parameters(
    workload: Workload, config: ProvisioningRequestConfigSpec
) -> Mapping[str, str]:
    """Return the parameters of a request: the configuration's, overridden by the Workload's."""
    own = {
        key.removeprefix(names.PROVREQ_PREFIX): value
        for key, value in sorted(workload.metadata.annotations.items())
        if key.startswith(names.PROVREQ_PREFIX)
    }
    return {**config.parameters, **own}


def _is_usable(
    view: ProvisioningView, check: ProvisioningCheck, request: ProvisioningRequest
) -> bool:
    if view.is_in(check, CheckState.READY):
        return True
    if check.config is None:
        return is_admitted(view.workload.status)
    return is_needed(view, check) and _is_in_sync(view.workload, check.config, request)


def _is_in_sync(
    workload: Workload, config: ProvisioningRequestConfigSpec, request: ProvisioningRequest
) -> bool:
    """Whether a request matches the configuration; additional parameters are allowed.

    Deviates: an overridden parameter is compared with the Workload's value. The reference
    compares the configuration's value, and deletes and creates such a request for ever.
    """
    if request.spec.provisioning_class_name != config.provisioning_class_name:
        return False
    wanted = build_parameters(workload, config)
    return all(request.spec.parameters.get(key) == wanted[key] for key in config.parameters)
