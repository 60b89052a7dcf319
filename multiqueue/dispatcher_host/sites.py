"""Make packages importable that are installed while this process runs, without a restart."""

from __future__ import annotations

import contextlib
import importlib
import site
import sys
from pathlib import Path


class PathSites:
    """Remembers the known path files, so that each new one is read once.

    An editable install (``pip install -e .``) is a path file in site-packages, which Python reads
    only when it starts.
    """

    def __init__(self) -> None:
        self._known = _stamps()

    def take_in_news(self) -> None:
        """Read path files that are new or changed, and clear the import caches."""
        importlib.invalidate_caches()
        found = _stamps()
        for path in sorted(path for path in found if found[path] != self._known.get(path)):
            site.addpackage(str(path.parent), path.name, set(sys.path))
        self._known = found


def _stamps() -> dict[Path, int]:
    """Return the path files in site-packages with their modification times."""
    stamps = {}
    for folder in {*site.getsitepackages(), site.getusersitepackages()}:
        for path in Path(folder).glob("*.pth"):
            with contextlib.suppress(FileNotFoundError):  # being replaced at this moment
                stamps[path] = path.stat().st_mtime_ns
    return stamps
