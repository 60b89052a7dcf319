"""docs/reference/labels.md: labels, annotations and other names on objects, from api/names.py."""

from __future__ import annotations

from multiqueue.api import names
from tools.reference.markdown import ROOT, Reference, code, page, read_constants, table

SOURCE = "multiqueue/api/names.py"
SECTIONS = ("Labels", "Annotations", "Finalizers, gates, controllers")
HEAD = """Names that begin with `multiqueue.dev/` are this program's own; the others are Kueue's
and Kubernetes'. A text that begins "On jobs" means the object that is queued, of any kind."""


def build() -> Reference:
    """Return the page."""
    found = [each for each in read_constants(ROOT / SOURCE) if each.section in SECTIONS]
    parts = []
    for section in SECTIONS:
        rows = [
            [code(getattr(names, each.name)), each.doc.removesuffix(" Ours.")]
            for each in found
            if each.section == section
        ]
        parts += [f"## {section}", table(["name", "where, and what it means"], sorted(rows))]
    return Reference(
        name="labels.md",
        text=page("Labels and annotations", f"`{SOURCE}`", HEAD, *parts),
        undescribed=tuple(each.name for each in found if not each.doc),
    )
