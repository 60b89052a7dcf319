"""Decides what the simulated autoscaler answers to a ProvisioningRequest, and when. Pure.

Parameters of the request control the answer. They come from a ProvisioningRequestConfig, or from a
job's annotation such as ``provreq.kueue.x-k8s.io/sim-outcome``. An annotation
``multiqueue.dev/<parameter>`` on the request itself overrides them at any time. Durations are in
simulated seconds:

``sim-delay-seconds``    from accepted to the answer
``sim-outcome``          Provisioned, Failed, BookingExpired, CapacityRevoked or Nothing
``sim-after-seconds``    from provisioned to BookingExpired or CapacityRevoked
``sim-failures``         so many attempts fail before one is provisioned
``sim-nodes``            nodes that appear with the capacity, such as ``2xa100/8``
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from multiqueue.api.conditions import ProvisioningCondition
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.embedded.cluster.nodes import NodePool, NodeSpecError, build_nodes, parse_node_pool

Request = Mapping[str, Any]
Condition = dict[str, Any]

ANNOTATION_PREFIX = "multiqueue.dev/"
DELAY_SECONDS = "sim-delay-seconds"
OUTCOME = "sim-outcome"
AFTER_SECONDS = "sim-after-seconds"
FAILURES = "sim-failures"
NODES = "sim-nodes"

DEFAULT_DELAY_SECONDS = 5.0
NODE_GROUP_DETAIL = "NodeGroup"
"""Key in provisioningClassDetails: the value that `NODE_GROUP_LABEL` has on the new nodes."""
NODE_GROUP_LABEL = "multiqueue.dev/sim-node-group"
MAX_GROUP = 54
"""A label value has 63 characters at most; a dash and a part of the uid follow."""


class ScaleOutcome(StrEnum):
    """How a request ends."""

    PROVISIONED = "Provisioned"
    FAILED = "Failed"
    BOOKING_EXPIRED = "BookingExpired"
    CAPACITY_REVOKED = "CapacityRevoked"
    NOTHING = "Nothing"


class SettingError(ValueError):
    """An invalid setting; the request fails with this message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The simulated outcome of one request."""

    delay_seconds: float = DEFAULT_DELAY_SECONDS
    outcome: ScaleOutcome = ScaleOutcome.PROVISIONED
    after_seconds: float = 0.0
    failures: int = 0
    pool: NodePool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleStep:
    """The next step of a request.

    Attributes:
        status: The complete new status; None: nothing to write.
        wait_seconds: Simulated seconds until the next step; None: there is none.
    """

    status: dict[str, Any] | None = None
    wait_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A request at a time."""

    request: Request
    now: datetime
    speed: float
    settings: Settings = field(default_factory=Settings)

    def is_true(self, type_: str) -> bool:
        return is_true(self.request, type_)

    def left(self, since: ProvisioningCondition, seconds: float) -> float:
        """Return the simulated seconds that are left of a period since a condition changed."""
        at = next(
            parse_time(c["lastTransitionTime"])
            for c in conditions_of(self.request)
            if c["type"] == since
        )
        assert at is not None, "every condition has its time"
        return seconds - (self.now - at).total_seconds() * self.speed


def decide_request(request: Request, *, now: datetime, speed: float) -> ScaleStep:
    """Return the next step of a request; durations count from the times in its conditions."""
    moment = _Moment(request=request, now=now, speed=speed)
    if any(moment.is_true(t) for t in (ScaleOutcome.FAILED, ScaleOutcome.CAPACITY_REVOKED)):
        return ScaleStep()
    try:
        moment = _Moment(request=request, now=now, speed=speed, settings=read_settings(request))
    except SettingError as error:
        return ScaleStep(status=_status(moment, {ScaleOutcome.FAILED: (True, str(error))}))
    if moment.settings.outcome is ScaleOutcome.NOTHING and not moment.is_true(
        ScaleOutcome.PROVISIONED
    ):
        return ScaleStep()
    if not moment.is_true(ProvisioningCondition.ACCEPTED):
        return ScaleStep(status=_accepted(moment), wait_seconds=moment.settings.delay_seconds)
    if not moment.is_true(ScaleOutcome.PROVISIONED):
        left = moment.left(ProvisioningCondition.ACCEPTED, moment.settings.delay_seconds)
        return ScaleStep(wait_seconds=left) if left > 0 else _answer(moment)
    return _end(moment)


def read_settings(request: Request) -> Settings:
    """Return the settings of a request.

    Raises:
        SettingError: a setting is invalid.
    """
    parameters: Mapping[str, str] = request["spec"].get("parameters") or {}
    annotations: Mapping[str, str] = request["metadata"].get("annotations") or {}

    def text(name: str) -> str | None:
        return annotations.get(ANNOTATION_PREFIX + name, parameters.get(name))

    outcome, nodes = text(OUTCOME) or ScaleOutcome.PROVISIONED, text(NODES)
    if outcome not in set(ScaleOutcome):
        raise SettingError(f'{OUTCOME} "{outcome}" is none of {", ".join(ScaleOutcome)}')
    try:
        return Settings(
            delay_seconds=float(text(DELAY_SECONDS) or DEFAULT_DELAY_SECONDS),
            outcome=ScaleOutcome(outcome),
            after_seconds=float(text(AFTER_SECONDS) or 0),
            failures=int(text(FAILURES) or 0),
            pool=parse_node_pool(nodes) if nodes else None,
        )
    except NodeSpecError as error:
        raise SettingError(f"{NODES}: {error}") from error
    except ValueError as error:
        raise SettingError(
            f"{DELAY_SECONDS}, {AFTER_SECONDS} and {FAILURES} are numbers: {error}"
        ) from error


def node_group(request: Request) -> str:
    """Name the capacity of a request; it fits a label."""
    metadata = request["metadata"]
    return f"{metadata['name'][:MAX_GROUP]}-{metadata['uid'][:8]}"


def provisioned_nodes(request: Request) -> list[dict[str, Any]]:
    """Return the nodes that belong to a request, once its capacity is there."""
    gone = is_true(request, ScaleOutcome.CAPACITY_REVOKED)
    if gone or not is_true(request, ScaleOutcome.PROVISIONED):
        return []
    try:
        pool = read_settings(request).pool
    except SettingError:
        return []
    if pool is None:
        return []
    group = node_group(request)
    named = NodePool(
        name=f"{pool.name}-{request['metadata']['uid'][:8]}",
        count=pool.count,
        labels={**pool.labels, NODE_GROUP_LABEL: group},
        allocatable=pool.allocatable,
    )
    return build_nodes([named])


def conditions_of(request: Request) -> Sequence[Condition]:
    """Return the conditions of a request."""
    found: Sequence[Condition] = (request.get("status") or {}).get("conditions") or ()
    return found


def is_true(request: Request, type_: str) -> bool:
    """Whether a condition of a request is True."""
    return any(c["type"] == type_ and c["status"] == "True" for c in conditions_of(request))


def _accepted(moment: _Moment) -> dict[str, Any]:
    delay = moment.settings.delay_seconds
    eta = format_time(moment.now + timedelta(seconds=delay / moment.speed))
    return _status(
        moment,
        {
            ProvisioningCondition.ACCEPTED: (True, "The request is accepted"),
            ScaleOutcome.PROVISIONED: (False, f"Waiting for capacity, expected at {eta}"),
        },
    )


def _answer(moment: _Moment) -> ScaleStep:
    settings, attempt = moment.settings, _attempt(moment.request)
    if settings.outcome is ScaleOutcome.FAILED or attempt <= settings.failures:
        words = f"No capacity for attempt {attempt} (simulated)"
        return ScaleStep(status=_status(moment, {ScaleOutcome.FAILED: (True, words)}))
    status = _status(
        moment, {ScaleOutcome.PROVISIONED: (True, "Capacity is provisioned (simulated)")}
    )
    status["provisioningClassDetails"] = {NODE_GROUP_DETAIL: node_group(moment.request)}
    ends = settings.outcome in {ScaleOutcome.BOOKING_EXPIRED, ScaleOutcome.CAPACITY_REVOKED}
    return ScaleStep(status=status, wait_seconds=settings.after_seconds if ends else None)


def _end(moment: _Moment) -> ScaleStep:
    outcome = moment.settings.outcome
    words = {
        ScaleOutcome.BOOKING_EXPIRED: "The booking of the capacity expired (simulated)",
        ScaleOutcome.CAPACITY_REVOKED: "The capacity was taken away (simulated)",
        ScaleOutcome.FAILED: "The capacity failed (simulated)",
    }.get(outcome)
    if words is None or moment.is_true(outcome):
        return ScaleStep()
    left = moment.left(ProvisioningCondition.PROVISIONED, moment.settings.after_seconds)
    if left > 0:
        return ScaleStep(wait_seconds=left)
    return ScaleStep(status=_status(moment, {outcome: (True, words)}))


def _status(
    moment: _Moment, changes: Mapping[ProvisioningCondition | ScaleOutcome, tuple[bool, str]]
) -> dict[str, Any]:
    """Return the status with some conditions set and all others unchanged."""
    conditions = {c["type"]: c for c in conditions_of(moment.request)}
    for type_, (value, message) in changes.items():
        conditions[str(type_)] = {
            "type": str(type_),
            "status": str(value),
            "reason": str(type_) if value else f"Not{type_}",
            "message": message,
            "lastTransitionTime": format_time(moment.now),
        }
    return {"conditions": list(conditions.values())}


def _attempt(request: Request) -> int:
    digits = re.search(r"-([0-9]+)$", request["metadata"]["name"])
    return int(digits[1]) if digits else 1
