"""The actions of the page, as a table by kind of object. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.api.cluster_orders import format_drain, read_orders
from multiqueue.api.names import CORDON, DRAIN
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload, WorkloadPriorityClass
from multiqueue.api.workload_state import is_finished
from multiqueue.dashboard.job_actions import ActionWrite, cancel, evict, set_priority
from multiqueue.kube.job_objects import JobObject
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    WORKLOADS,
    Resource,
)

Json = dict[str, Any]


class UnknownActionError(ValueError):
    """What was asked for does not exist; the message says what does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAction:
    """One action.

    Attributes:
        verb: Its name for programs.
        title: The words of its button.
        words: What happens.
        patch: The merge patch of the object.
        leads_to: The state after it, in which it is not offered; empty: it changes none.
        stops: Whether running jobs stop.
        job_writes: What it writes instead of the patch, for a Workload and the class that was
            chosen.
        wants_class: Whether a WorkloadPriorityClass has to be chosen.
        drains: Whether it drains a worker.
    """

    verb: str
    title: str
    words: str
    patch: Json | None = None
    leads_to: str = ""
    stops: bool = False
    job_writes: Callable[[Workload, WorkloadPriorityClass | None], Sequence[ActionWrite]] | None = (
        None
    )
    wants_class: bool = False
    drains: bool = False

    def is_offered(self, state: str | None) -> bool:
        """Whether it changes an object in this state. A drain is a cordon too, and only ends."""
        return self.leads_to != state and not (self.verb == "cordon" and state == "draining")

    def list_writes(
        self, resource: Resource, obj: Json, chosen: WorkloadPriorityClass | None = None
    ) -> Sequence[ActionWrite]:
        """Return what it writes for an object; nothing if it would not change anything."""
        if self.job_writes is not None:
            return self.job_writes(decode(Workload, obj), chosen)
        metadata = obj["metadata"]
        assert self.patch is not None, "it writes a patch"
        target = JobObject(
            resource=resource,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata["uid"],
        )
        return (ActionWrite(target=target, patch=self.patch),)


@dataclass(frozen=True, slots=True)
class ActionKind:
    """The actions on a kind of objects, and how its state is read; None: nothing can be done."""

    resource: Resource
    find_state: Callable[[Json], str | None]
    actions: tuple[PageAction, ...]


def _stop_policy(obj: Json) -> str:
    return str(obj["spec"].get("stopPolicy") or "None")


def _activity(obj: Json) -> str | None:
    workload = decode(Workload, obj)
    if is_finished(workload.status):
        return None
    return "active" if workload.spec.active else "stopped"


def _use(obj: Json) -> str:
    orders = read_orders(obj["metadata"].get("annotations") or {})
    if orders.drain is not None or orders.problem:
        return "draining"
    return "cordoned" if orders.cordoned else "in use"


QUEUE_ACTIONS = (
    PageAction(
        verb="resume",
        title="Resume",
        patch={"spec": {"stopPolicy": "None"}},
        leads_to="None",
        words="Jobs of this queue start again.",
    ),
    PageAction(
        verb="hold",
        title="Hold",
        patch={"spec": {"stopPolicy": "Hold"}},
        leads_to="Hold",
        words="No job of this queue starts any more. Those that run go on.",
    ),
    PageAction(
        verb="stop",
        title="Hold and stop jobs",
        patch={"spec": {"stopPolicy": "HoldAndDrain"}},
        leads_to="HoldAndDrain",
        words="No job of this queue starts any more, and those that run are stopped.",
        stops=True,
    ),
)
KINDS: Mapping[str, ActionKind] = {
    "clusterqueues": ActionKind(CLUSTER_QUEUES, _stop_policy, QUEUE_ACTIONS),
    "localqueues": ActionKind(LOCAL_QUEUES, _stop_policy, QUEUE_ACTIONS),
    "workloads": ActionKind(
        WORKLOADS,
        _activity,
        (
            PageAction(
                verb="resume",
                title="Resume",
                patch={"spec": {"active": True}},
                leads_to="active",
                words="The job waits for quota again.",
            ),
            PageAction(
                verb="stop",
                title="Stop",
                patch={"spec": {"active": False}},
                leads_to="stopped",
                words="The job gives its quota back, and waits until it is resumed.",
                stops=True,
            ),
            PageAction(
                verb="evict",
                title="Evict",
                words="The job gives its quota back, and waits in its queue to start again.",
                stops=True,
                job_writes=evict,
            ),
            PageAction(
                verb="priority",
                title="Priority",
                words="A job goes before those of lower priority in its queue, and may stop them "
                "if its queue preempts.",
                job_writes=set_priority,
                wants_class=True,
            ),
            PageAction(
                verb="cancel",
                title="Cancel job",
                words="The job is deleted with its pods, and does not come back.",
                leads_to="gone",
                stops=True,
                job_writes=cancel,
            ),
        ),
    ),
    "multikueueclusters": ActionKind(
        MULTIKUEUE_CLUSTERS,
        _use,
        (
            PageAction(
                verb="cordon",
                title="Cordon",
                patch={"metadata": {"annotations": {CORDON: "true"}}},
                leads_to="cordoned",
                words="No job is sent to this worker any more. What runs there goes on; what only "
                "waits there is offered elsewhere.",
            ),
            PageAction(
                verb="uncordon",
                title="Uncordon",
                patch={"metadata": {"annotations": {CORDON: None, DRAIN: None}}},
                leads_to="in use",
                words="Jobs are sent to this worker again. If it is being drained, that ends.",
            ),
            PageAction(
                verb="drain",
                title="Drain",
                patch={"metadata": {"annotations": {DRAIN: format_drain()}}},
                leads_to="draining",
                words="No job is sent to this worker any more, and those that run there are moved "
                "a few at a time: each is stopped when another worker has room for it. A job that "
                "no other worker can hold stays until somebody acts.",
                stops=True,
                drains=True,
            ),
        ),
    ),
}


def read_target(asked: Mapping[str, Any]) -> tuple[ActionKind, str, str]:
    """Return the kind, the namespace (empty: none) and the name of the object that is meant.

    Raises:
        UnknownActionError: One of them is missing or unknown.
    """
    kind = KINDS.get(str(asked.get("kind")))
    if kind is None:
        raise UnknownActionError(f"kind: choose from {', '.join(KINDS)}")
    namespace, name = asked.get("namespace") or "", asked.get("name")
    if not isinstance(name, str) or not name or not isinstance(namespace, str):
        raise UnknownActionError("name and namespace must be texts, and name is required")
    if bool(namespace) != kind.resource.namespaced:
        needs = "is required" if kind.resource.namespaced else "must be left out"
        raise UnknownActionError(f"namespace {needs} for {kind.resource.plural}")
    return kind, namespace, name


def find_action(kind: ActionKind, verb: object) -> PageAction:
    """Return the action of a kind.

    Raises:
        UnknownActionError: There is no such action.
    """
    for action in kind.actions:
        if action.verb == verb:
            return action
    known = ", ".join(each.verb for each in kind.actions)
    raise UnknownActionError(f"verb: choose from {known} for {kind.resource.plural}")
