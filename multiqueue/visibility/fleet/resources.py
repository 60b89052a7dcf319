"""The resources of the fleet API in one table: scope, verbs, rights and columns. Pure.

Discovery, rights, routes, topics of the feed and the tables of kubectl are derived from it. Every
row of an answer has the fields that ``columns`` names in its ``status``; a frame of the feed has
the same fields as an array in that order, behind the row's key.

A request needs two rights: the one on its path, which `server` checks, and those of ``native``:
the rights on the objects that the answer is made of. So nobody sees more here than with kubectl.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from multiqueue.lib.words import words

GROUP = "fleet.multiqueue.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KUEUE = "kueue.x-k8s.io"
VISIBILITY = "visibility.kueue.x-k8s.io"


class NativeRight(NamedTuple):
    """A right on objects of the API server."""

    verb: str
    group: str
    resource: str
    subresource: str = ""


LIST_WORKLOADS = NativeRight("list", KUEUE, "workloads")
LIST_CLUSTER_QUEUES = NativeRight("list", KUEUE, "clusterqueues")
LIST_COHORTS = NativeRight("list", KUEUE, "cohorts")
LIST_LOCAL_QUEUES = NativeRight("list", KUEUE, "localqueues")
LIST_WORKERS = NativeRight("list", KUEUE, "multikueueclusters")
GET_WORKLOAD = NativeRight("get", KUEUE, "workloads")
GET_PENDING = NativeRight("get", VISIBILITY, "localqueues", "pendingworkloads")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetResource:
    """One resource of the group.

    Attributes:
        plural: The name in paths.
        singular: The name for one object in kubectl.
        kind: The kind of one object; lists have ``List`` behind it.
        namespaced: Whether its objects are in namespaces.
        verbs: The verbs that it serves.
        native: The rights on other objects that a request needs beside the one on the path. They
            are asked for in the request's namespace, or at the cluster scope.
        columns: The fields of ``status``, in the order of the feed's rows.
        topic: Its name in the feed; empty if the feed does not have it.
    """

    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    native: tuple[NativeRight, ...] = ()
    columns: tuple[str, ...] = ()
    topic: str = ""


STANDINGS = FleetResource(
    plural="standings",
    singular="standing",
    kind="Standing",
    namespaced=True,
    verbs=("get", "list", "watch"),
    native=(LIST_WORKLOADS,),
    columns=words(
        "job phase words worker offeredTo position start gpus team localQueue clusterQueue "
        "flavors priority created since code why cut"
    ),
    topic="standings",
)
STORIES = FleetResource(
    plural="stories",
    singular="story",
    kind="Story",
    namespaced=True,
    verbs=("get",),
    native=(GET_WORKLOAD,),
    columns=("standing", "spans", "decision", "explanation", "conditions", "knownSince"),
    topic="story",
)
LINES = FleetResource(
    plural="lines",
    singular="line",
    kind="Line",
    namespaced=True,
    verbs=("get",),
    native=(GET_PENDING,),
    columns=words("workload position gpus priority job created localQueue parked start code why"),
    topic="line",
)
QUOTAS = FleetResource(
    plural="quotas",
    singular="quota",
    kind="Quota",
    namespaced=False,
    verbs=("list", "watch"),
    native=(LIST_CLUSTER_QUEUES, LIST_COHORTS),
    columns=words(
        "kind cohort active why pending pendingGpus inadmissible reserving admitted weight "
        "share quotas flows"
    ),
    topic="quotas",
)
WORKERS = FleetResource(
    plural="workers",
    singular="worker",
    kind="Worker",
    namespaced=False,
    verbs=("get", "list", "watch"),
    native=(LIST_WORKERS,),
    columns=words(
        "connected why since health trouble use gpus used free flavors running waiting warnings"
    ),
    topic="workers",
)
TOTALS = FleetResource(
    plural="totals",
    singular="total",
    kind="Total",
    namespaced=False,
    verbs=("get", "list"),
    columns=words("gpus used borrowed free holding waiting waitingGpus oldest nextStart flavors"),
    topic="totals",
)
SHARES = FleetResource(
    plural="shares",
    singular="share",
    kind="Share",
    namespaced=False,
    verbs=("list",),
    native=(LIST_CLUSTER_QUEUES, LIST_LOCAL_QUEUES),
    columns=words("cohort weight share rank pastUsage waiting starvedSeconds minutes"),
    topic="shares",
)
CHANGES = FleetResource(
    plural="changes",
    singular="change",
    kind="Change",
    namespaced=False,
    verbs=("list",),
    native=(LIST_CLUSTER_QUEUES, LIST_LOCAL_QUEUES, LIST_WORKLOADS),
    columns=("at", "kind", "object", "action", "fields", "by"),
    topic="changes",
)
CALIBRATIONS = FleetResource(
    plural="calibrations",
    singular="calibration",
    kind="Calibration",
    namespaced=False,
    verbs=("list",),
    columns=("stage", "horizon", "judged", "early", "inside", "late", "factor", "words"),
    topic="calibrations",
)
WHATIFS = FleetResource(
    plural="whatifs",
    singular="whatif",
    kind="WhatIf",
    namespaced=True,
    verbs=("create",),
    native=(LIST_CLUSTER_QUEUES, LIST_COHORTS, LIST_LOCAL_QUEUES, LIST_WORKERS),
)
FEEDS = FleetResource(
    plural="feeds",
    singular="feed",
    kind="Feed",
    namespaced=False,
    verbs=("watch",),
)
RESOURCES = (
    STANDINGS,
    STORIES,
    LINES,
    QUOTAS,
    WORKERS,
    TOTALS,
    SHARES,
    CHANGES,
    CALIBRATIONS,
    WHATIFS,
    FEEDS,
)
BY_PLURAL = {resource.plural: resource for resource in RESOURCES}
BY_TOPIC = {resource.topic: resource for resource in RESOURCES if resource.topic}
