"""Which settings of a gate work here, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from multiqueue.api.config.gate_history import HISTORY
from multiqueue.api.config.gates import GATES, WHY, Gate, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """A row of the table of gates.

    Attributes:
        support: ``both settings``, ``no difference`` or ``default only``.
        why: The reason, unless both settings work.
    """

    name: str
    stage: str
    default: bool
    requires: tuple[str, ...]
    history: str
    support: str
    why: str


def rows() -> Iterator[GateRow]:
    """Yield a row for every gate, in upstream's order."""
    for gate, spec in GATES.items():
        support, why = _support(gate)
        yield GateRow(
            name=gate.value,
            stage=f"{spec.stage} (locked)" if spec.stage is Stage.GA else str(spec.stage),
            default=spec.default,
            requires=tuple(requirement.value for requirement in spec.requires),
            history=HISTORY[gate],
            support=support,
            why=why,
        )


def _support(gate: Gate) -> tuple[str, str]:
    spec = GATES[gate]
    if spec.stage is Stage.GA:
        return "default only", "locked, in upstream too"
    if spec.adjustable:
        return "both settings", ""
    if spec.alike:
        return "no difference", "both settings are one to this program"
    return "default only", WHY[gate]
