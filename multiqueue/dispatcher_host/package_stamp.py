"""Whether a package may have changed: when its files, and the folders around it, were written."""

from __future__ import annotations

import contextlib
import site
import sys
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from pathlib import Path

MOST_FILES = 2000
"""Of a package that are looked at: a tenth of a second where there are as many."""


def stamp_package(value: str, *, sites: Iterable[str] | None = None) -> Hashable:
    """Return what is another value once the package of an entry point is another one.

    What it needs counts, too, as installing anything changes the folder of packages. Reads names
    and times only; no code runs.

    Args:
        value: ``module:attribute``.
        sites: Folders with path files, as editable installs have them; None: those of Python.
    """
    name = value.partition(":")[0].strip().partition(".")[0]
    if sites is None:
        sites = {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(sorted(_list_times(name, _list_folders(sites))))


def _list_times(name: str, folders: Iterable[Path]) -> Iterator[tuple[str, int]]:
    for folder in folders:
        sources = (folder / name).rglob("*.py")
        for path in (folder, folder / f"{name}.py", *islice(sources, MOST_FILES)):
            with contextlib.suppress(OSError):  # not there, or no folder
                yield str(path), path.stat().st_mtime_ns


def _list_folders(sites: Iterable[str]) -> set[Path]:
    """Return where modules are looked for, by processes that are started from now on, too."""
    folders = {Path(each) for each in sys.path if each}
    for packages in sites:
        for path in Path(packages).glob("*.pth"):
            with contextlib.suppress(OSError):  # being replaced at this moment
                lines = path.read_text(errors="replace").splitlines()
                folders |= {Path(packages, line) for line in lines if not _is_code(line)}
    return folders


def _is_code(line: str) -> bool:
    return not line.strip() or line.startswith(("#", "import ", "import\t"))
