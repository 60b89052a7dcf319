"""What was read of an installation of Kueue. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from multiqueue.api.names import OWN_GROUP
from multiqueue.api.validation.access import boolean, items, mapping, number, strings, text
from multiqueue.kube.manager_names import DEPLOYMENT
from multiqueue.workers.kubeconfigs.stored import CONFIG_KEY, mounted_config_map

Object = Mapping[str, Any]

REPLICAS_BEFORE = f"{OWN_GROUP}/replicas-before-migration"
"""Annotation of a stopped Deployment: its replicas before."""
RELEASE = "meta.helm.sh/release-name"
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)")
_GATES = "--feature-gates="


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The objects of Kueue in a cluster, a folder or a values file.

    Attributes:
        objects: Everything that was read, in the order of reading.
        is_live: Whether they were read from a cluster, so that nothing is missing.
        values: The values of upstream's chart, if there are any.
        holder: Who leads now; empty if nobody does.
        identity: The uid of the namespace kube-system, which names the cluster.
    """

    objects: tuple[Object, ...]
    is_live: bool
    values: Mapping[str, Any] = field(default_factory=dict)
    holder: str = ""
    identity: str = ""

    def of(self, kind: str) -> Iterator[Object]:
        """Yield the objects of a kind."""
        return (obj for obj in self.objects if obj.get("kind") == kind)

    def find(self, kind: str, name: str) -> Object | None:
        """Return the object of a kind with this name."""
        return next((obj for obj in self.of(kind) if name_of(obj) == name), None)

    @property
    def deployment(self) -> Object | None:
        """The manager's Deployment."""
        return self.find("Deployment", DEPLOYMENT)

    @property
    def release(self) -> str:
        """The release of helm that the Deployment belongs to; empty if there is none."""
        deployment = self.deployment or {}
        return text(mapping(deployment, "metadata", "annotations").get(RELEASE))

    @property
    def image(self) -> str:
        """The image of the manager; empty if it is unknown."""
        if self.deployment is not None:
            return text(_manager_container(self.deployment).get("image"))
        image = mapping(self.values, "controllerManager", "manager", "image")
        return f"{image.get('repository')}:{image.get('tag')}" if image else ""

    @property
    def version(self) -> tuple[int, int] | None:
        """Upstream's version, such as (0, 19); None if no label and no image says it."""
        labels = mapping(self.deployment, "metadata", "labels")
        tag = self.image.rpartition("/")[2].partition(":")[2]
        told = text(labels.get("app.kubernetes.io/version"))
        match = _VERSION.search(tag) or _VERSION.search(told)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def config_text(self) -> str | None:
        """The manager's Configuration as it is stored; None if there is none."""
        stored = self.find("ConfigMap", mounted_config_map(self.deployment))
        if stored is not None:
            return text(mapping(stored, "data").get(CONFIG_KEY))
        for obj in self.of("Configuration"):
            import yaml

            return yaml.safe_dump(dict(obj))
        given = text(mapping(self.values, "managerConfig").get("controllerManagerConfigYaml"))
        return given or None

    @property
    def flagged_gates(self) -> dict[str, Any]:
        """The feature gates of the command line, or of the values."""
        container = _manager_container(self.deployment or {})
        gates: dict[str, Any] = {}
        for argument in (*strings(container.get("command")), *strings(container.get("args"))):
            if argument.startswith(_GATES):
                pairs = (pair.split("=", 1) for pair in argument[len(_GATES) :].split(","))
                gates.update((pair[0], boolean(pair[-1])) for pair in pairs)
        listed = mapping(self.values, "controllerManager").get("featureGates")
        gates.update((text(each.get("name")), each.get("enabled")) for _, each in items(listed))
        return gates


def is_ours(deployment: Object) -> bool:
    """Whether a Deployment runs this program and not upstream's, by its command line."""
    container = _manager_container(deployment)
    return "run" in list(strings(container.get("args")))


def replicas_of(deployment: Object) -> int:
    """Return how many replicas a Deployment has, or had before this command stopped it."""
    before = text(mapping(deployment, "metadata", "annotations").get(REPLICAS_BEFORE))
    return number(mapping(deployment, "spec").get("replicas"), 1) or int(before or 0)


def name_of(obj: Object) -> str:
    """Return an object's name."""
    return text(mapping(obj, "metadata").get("name"))


def key_of(obj: Object) -> str:
    """Return ``Kind namespace/name``."""
    namespace = text(mapping(obj, "metadata").get("namespace"))
    name = f"{namespace}/{name_of(obj)}" if namespace else name_of(obj)
    return f"{obj.get('kind')} {name}"


def _manager_container(deployment: Object) -> Object:
    pod = mapping(deployment, "spec", "template", "spec")
    containers = [each for _, each in items(pod.get("containers"))]
    named = [each for each in containers if each.get("name") == "manager"]
    return (named or containers or [{}])[0]
