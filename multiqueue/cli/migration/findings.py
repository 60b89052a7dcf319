"""What a check before a migration finds. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Weight(StrEnum):
    """How much a finding matters."""

    BLOCKS = "blocks"
    """Nothing is changed until this is solved."""
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationFinding:
    """One thing that was found.

    Attributes:
        check: The check that found it, such as ``gates``.
        about: The object or the field.
        what: What was found.
        todo: What to do; empty if there is nothing to do.
        rows: Rows of docs/compatibility.md that say what behaves differently.
    """

    check: str
    weight: Weight
    about: str
    what: str
    todo: str = ""
    rows: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it for ``-o json``."""
        return {**asdict(self), "rows": list(self.rows), "weight": str(self.weight)}
