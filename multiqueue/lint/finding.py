"""What the linter says: which object, where in it, what is odd, why it matters, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How sure it is that something does not work as its author means."""

    ERROR = "error"
    """It cannot work."""
    WARNING = "warning"
    """It works, but hardly as meant."""
    INFO = "info"
    """It may well be meant, and surprises people."""

    @property
    def rank(self) -> int:
        """0 for what matters most."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a rule found.

    Attributes:
        rule: Id of the rule.
        cluster: The worker it was found on; empty for the cluster or the files that were named.
        source: ``file:line`` of the object; empty where it was read from a cluster.
        path: Field of the object, as in Kubernetes' errors; empty for the object as a whole.
        what: What was found, with names and numbers.
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
        """Return the form for programs; the keys are stable."""
        return {field: str(getattr(self, field)) for field in self.__slots__}
