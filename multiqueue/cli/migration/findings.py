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


def blocks(check: str, about: str, what: str, todo: str = "") -> MigrationFinding:
    """Return what must be solved before anything is changed."""
    return MigrationFinding(check=check, weight=Weight.BLOCKS, about=about, what=what, todo=todo)


def warns(check: str, about: str, what: str) -> MigrationFinding:
    """Return what the user should look at."""
    return MigrationFinding(check=check, weight=Weight.WARNING, about=about, what=what)


def tells(check: str, about: str, what: str, rows: tuple[int, ...] = ()) -> MigrationFinding:
    """Return what is good to know."""
    return MigrationFinding(check=check, weight=Weight.INFO, about=about, what=what, rows=rows)
