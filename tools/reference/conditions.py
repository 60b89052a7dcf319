"""docs/reference/conditions.md: types and reasons of conditions, from the enums."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from multiqueue.api import conditions
from multiqueue.api.workload_state import DEACTIVATED_DUE_TO
from multiqueue.jobs.declared.compiled import JobKindReason
from tools.reference.markdown import ROOT, Constant, Reference, code, page, plain, read_constants
from tools.reference.markdown import table as make_table

ENUMS: tuple[type[StrEnum], ...] = (
    conditions.WorkloadCondition,
    conditions.Reason,
    conditions.CheckState,
    conditions.QueueReason,
    conditions.AutomationReason,
    conditions.ClusterReason,
    conditions.DrainReason,
    conditions.CheckReason,
    conditions.ProvisioningCondition,
    conditions.ProfileReason,
    JobKindReason,
)
HEAD = f"""A condition has a type, a status, a reason for programs, and a message for people. The
types and reasons are Kueue's unless a text says *ours*; those of kinds of `multiqueue.dev` are
ours. If an eviction deactivates a Workload, its reason begins with `{DEACTIVATED_DUE_TO}`."""


def build() -> Reference:
    """Return the page."""
    parts = []
    missing = []
    for enum in ENUMS:
        found = list(_members(enum))
        missing += [f"{enum.__name__}.{each.name}" for each in found if not each.doc]
        parts.append(f"## {_title(enum)}")
        parts.append(_table(enum, found))
    others = [
        each
        for each in read_constants(ROOT / "multiqueue/api/conditions.py")
        if not each.owner and each.name != "MAX_MESSAGE"
    ]
    rows = [[code(getattr(conditions, each.name)), _ours(_shared(each, others))] for each in others]
    parts += ["## Types of conditions of other kinds", make_table(["type", "what it says"], rows)]
    return Reference(
        name="conditions.md",
        text=page("Conditions and reasons", "`multiqueue/api/conditions.py`", HEAD, *parts),
        undescribed=tuple(missing),
    )


def _members(enum: type[StrEnum]) -> Iterator[Constant]:
    path = ROOT / f"{enum.__module__.replace('.', '/')}.py"
    return (each for each in read_constants(path) if each.owner == enum.__name__)


def _table(enum: type[StrEnum], found: list[Constant]) -> str:
    has_sections = any(each.section for each in found)
    head = ["value", "what it says"]
    rows = [[code(enum[each.name]), _ours(each.doc)] for each in found]
    if has_sections:
        head.insert(0, "condition")
        rows = [[each.section, *row] for each, row in zip(found, rows, strict=True)]
    return make_table(head, rows)


def _title(enum: type[StrEnum]) -> str:
    first = plain(enum.__doc__ or "").split(". ")[0]
    return first.partition(" (")[0].removesuffix(".")


def _shared(constant: Constant, others: list[Constant]) -> str:
    """Return the text of a constant; one text below several is that of each."""
    return next(each.doc for each in others[others.index(constant) :] if each.doc)


def _ours(text: str) -> str:
    if text.endswith(" Ours."):
        return text.removesuffix(" Ours.") + " *Ours.*"
    return text.replace("Ours: ", "*Ours*: ")
