"""Calls admission webhooks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from multiqueue.apiserver.kinds import JsonObject, Registry
from multiqueue.apiserver.plane import Call, Target
from multiqueue.apiserver.store import Store

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One operation as webhooks judge it; objects in the version of the target."""

    operation: Operation
    target: Target
    obj: JsonObject | None
    old: JsonObject | None
    options: Mapping[str, Any]


class Admission:
    """Finds the webhooks that want to judge an operation, and asks them."""

    def __init__(
        self, store: Store, registry: Registry, services: Mapping[tuple[str, str], str]
    ) -> None:
        self._store = store
        self._registry = registry
        self._services = services

    async def close(self) -> None:
        """Close connections."""

    def concerns(self, review: Review) -> bool:
        """Whether any webhook would be called: the fast path skips everything else."""
        _ = review
        return False

    async def mutate(self, call: Call, review: Review) -> JsonObject | None:
        """The object as mutating webhooks want it; None: unchanged."""

    async def validate(self, call: Call, review: Review) -> None:
        """Ask validating webhooks."""
