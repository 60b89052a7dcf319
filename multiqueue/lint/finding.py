"""A finding of the linter: the object, the field, the problem, its effect, and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How likely it is that something does not work as its author intends."""

    ERROR = "error"
    """It cannot work."""
    WARNING = "warning"
    """It works, but probably not as intended."""
    INFO = "info"
    """It may be intended, but surprises people."""

    @property
    def rank(self) -> int:
        """The rank, 0 for the most severe."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem that a rule found.

    Attributes:
        rule: The id of the rule.
        cluster: The worker with the problem; empty for the manager's cluster or the given files.
        source: ``file:line`` of the object; empty if it was read from a cluster.
        path: The field of the object, as in Kubernetes' errors; empty for the whole object.
        what: The problem, with names and numbers.
        why: Why it matters.
        todo: What to do about it.
    """

    rule: str
    severity: Severity
    cluster: str
    kind: str
    namespace: str
    name: str
    source: str
    path: str
    what: str
    why: str
    todo: str

    def to_dict(self) -> Mapping[str, str]:
        """Return the finding for programs; the keys are stable."""
        return {field: str(getattr(self, field)) for field in self.__slots__}
