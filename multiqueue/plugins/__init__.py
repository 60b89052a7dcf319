"""The public API for dispatcher authors. Everything exported here stays compatible.

See ``docs/dispatchers`` for how to write, test, install and choose a dispatcher.
"""

from __future__ import annotations

from multiqueue.plugins.arguments import (
    find_problems,
    read_choice,
    read_count,
    read_duration,
    read_flag,
    read_names,
    read_weights,
)
from multiqueue.plugins.capacity import (
    Fit,
    Outlook,
    find_refusal,
    judge,
    place,
)
from multiqueue.plugins.dispatcher import ChecksArguments, Dispatcher
from multiqueue.plugins.forecast import (
    Basis,
    Forecast,
    Prospect,
    Runtime,
    StartEstimate,
    StoppedWorkload,
)
from multiqueue.plugins.foresee import foresee
from multiqueue.plugins.global_queue import find_turn
from multiqueue.plugins.hardware import Grade, grade_flavor
from multiqueue.plugins.limits import Limit
from multiqueue.plugins.nomination import ClusterVerdict, Nomination, QueuePlacement, ScoreTerm
from multiqueue.plugins.offers import cost_of, find_gain, find_speed, runtime_on, speed_on
from multiqueue.plugins.option import Option, Tier
from multiqueue.plugins.options import Survey, bind, rank, survey
from multiqueue.plugins.suitability import scarce_resource
from multiqueue.plugins.view import (
    ClusterClaim,
    ClusterView,
    CopyState,
    DispatchView,
    FlavorView,
    PodSetView,
    QueueView,
    QuotaView,
    ReservedFlavor,
    ResourceGroupView,
    Round,
    WeightedTerm,
    WorkloadView,
)

__all__ = [
    "Basis",
    "ChecksArguments",
    "ClusterClaim",
    "ClusterVerdict",
    "ClusterView",
    "CopyState",
    "DispatchView",
    "Dispatcher",
    "Fit",
    "FlavorView",
    "Forecast",
    "Grade",
    "Limit",
    "Nomination",
    "Option",
    "Outlook",
    "PodSetView",
    "Prospect",
    "QueuePlacement",
    "QueueView",
    "QuotaView",
    "ReservedFlavor",
    "ResourceGroupView",
    "Round",
    "Runtime",
    "ScoreTerm",
    "StartEstimate",
    "StoppedWorkload",
    "Survey",
    "Tier",
    "WeightedTerm",
    "WorkloadView",
    "bind",
    "cost_of",
    "find_gain",
    "find_problems",
    "find_refusal",
    "find_speed",
    "find_turn",
    "foresee",
    "grade_flavor",
    "judge",
    "place",
    "rank",
    "read_choice",
    "read_count",
    "read_duration",
    "read_flag",
    "read_names",
    "read_weights",
    "runtime_on",
    "scarce_resource",
    "speed_on",
    "survey",
]
