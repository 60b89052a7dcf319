"""docs/reference/gates.md: every feature gate, from the tables of multiqueue/api/config."""

from __future__ import annotations

from multiqueue.api.config.gate_support import rows
from multiqueue.api.config.gates import Gate
from tools.reference.gate_purposes import PURPOSES
from tools.reference.markdown import Reference, code, page, table

HEAD = """The gates of Kueue's manager, set by `featureGates` of the configuration. `multiqueue
config gates` prints them, too. *here* says which settings this program takes: for *both
settings* each does what upstream's does; for *no difference* both mean the same here; for
*default only* the other setting is an error, with the reason below."""


def build() -> Reference:
    """Return the page."""
    lines = []
    for row in rows():
        needs = f" Needs {', '.join(map(code, row.requires))}." if row.requires else ""
        here = f"{row.support}: {row.why}" if row.why else row.support
        what = PURPOSES.get(Gate(row.name), "")
        lines.append(
            [code(row.name), row.stage, _on(value=row.default), what + needs, here, row.history]
        )
    head = ["gate", "stage", "default", "what it does when it is on", "here", "history in Kueue"]
    return Reference(
        name="gates.md",
        text=page("Feature gates", "`multiqueue/api/config`", HEAD, table(head, lines)),
        undescribed=tuple(gate.value for gate in Gate if not PURPOSES.get(gate)),
    )


def _on(*, value: bool) -> str:
    return "on" if value else "off"
