"""Packages that are installed while this process runs, made importable as a restart would."""

from __future__ import annotations

import contextlib
import importlib
import site
import sys
from pathlib import Path


class PathSites:
    """Remembers which path files were there, so that each new one is read once.

    An editable install (``pip install -e .``) is a path file in site-packages, which Python reads
    when it starts.
    """

    def __init__(self) -> None:
        self._known = _stamps()

    def take_in_news(self) -> None:
        """Read path files that are new or changed, and forget what was looked up before."""
        importlib.invalidate_caches()
        found = _stamps()
        for path in sorted(path for path in found if found[path] != self._known.get(path)):
            site.addpackage(str(path.parent), path.name, set(sys.path))
        self._known = found


def _stamps() -> dict[Path, int]:
    """Path files in site-packages -> when they were written."""
    stamps = {}
    for folder in {*site.getsitepackages(), site.getusersitepackages()}:
        for path in Path(folder).glob("*.pth"):
            with contextlib.suppress(FileNotFoundError):  # being replaced at this moment
                stamps[path] = path.stat().st_mtime_ns
    return stamps
