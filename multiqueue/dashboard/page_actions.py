"""The actions of the page, as a table by kind of object. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.cluster_orders import read_orders
from multiqueue.api.names import CORDON, DRAIN
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_finished
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
        patch: The merge patch.
        leads_to: The state after it; it is offered in all other states.
        words: What happens.
        stops: Whether running jobs stop.
    """

    verb: str
    title: str
    patch: Json
    leads_to: str
    words: str
    stops: bool = False

    def is_offered(self, state: str | None) -> bool:
        """Whether it changes an object in this state. A drain is a cordon too, and only ends."""
        return self.leads_to != state and not (self.verb == "cordon" and state == "draining")


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
