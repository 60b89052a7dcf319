"""Base of all typed objects: metadata, conditions, selectors, times and quantities on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec


class Struct(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """A frozen API type: snake_case here, camelCase on the wire, unknown fields ignored on reading."""


QuantityValue = str | int | float
"""A Kubernetes quantity as it stands in JSON; `multiqueue.lib.quantity.parse_quantity` reads it."""

ResourceList = dict[str, QuantityValue]
"""Resource name -> quantity."""

PodTemplate = dict[str, Any]
"""A PodTemplateSpec, opaque: metadata and spec as on the wire."""


class OwnerReference(Struct, frozen=True, kw_only=True):
    """Owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """The parts of metadata that we read."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def created_at(self) -> datetime:
        """Creation time; the epoch when the object was never stored."""
        return parse_time(self.creation_timestamp) or datetime.fromtimestamp(0, UTC)


class Condition(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """metav1.Condition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0

    @property
    def transitioned_at(self) -> datetime:
        """Time of the last change of status; the epoch when absent."""
        return parse_time(self.last_transition_time) or datetime.fromtimestamp(0, UTC)


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True):
    """One matchExpressions entry."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, kw_only=True):
    """metav1.LabelSelector; an empty one selects everything, an absent one nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Taint(Struct, frozen=True, kw_only=True):
    """Node taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Struct, frozen=True, kw_only=True):
    """Pod toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


def parse_time(text: str | None) -> datetime | None:
    """Parse an RFC 3339 time of the API (with or without fraction) into an aware UTC datetime."""
    if not text:
        return None
    return datetime.fromisoformat(text).astimezone(UTC)


def format_time(moment: datetime) -> str:
    """Format as metav1.Time: whole seconds, UTC, ``Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
