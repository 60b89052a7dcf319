"""The list of pages in docs/reference."""

from __future__ import annotations

from collections.abc import Iterator

from tools.reference import (
    commands,
    conditions,
    configuration,
    dispatchers,
    events,
    gates,
    kinds,
    labels,
    limits,
    roles,
)
from tools.reference.markdown import ROOT, Reference

FOLDER = ROOT / "docs" / "reference"
BUILDERS = (
    commands.build,
    configuration.build,
    kinds.build,
    gates.build,
    labels.build,
    conditions.build,
    events.build,
    roles.build,
    dispatchers.build,
    limits.build,
)


def build_all() -> Iterator[Reference]:
    """Yield every page as it should be."""
    for build in BUILDERS:
        yield build()
