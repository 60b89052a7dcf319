"""Small real packages with dispatchers, as an installer leaves them on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from multiqueue.dispatcher_host.registry import ENTRY_POINT_GROUP


def install(folder: Path, module: str, code: str, dispatchers: Mapping[str, str]) -> None:
    """Put a module into a folder, and the dispatchers that it brings: names to classes."""
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    points = "".join(f"{name} = {module}:{kind}\n" for name, kind in dispatchers.items())
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{points}")
