"""Detect whether a package may have changed, by the times of its files and folders."""

from __future__ import annotations

import contextlib
import site
import sys
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from pathlib import Path

MOST_FILES = 2000
"""Most files of a package that are checked; that many take a tenth of a second."""


def stamp_package(value: str, *, sites: Iterable[str] | None = None) -> Hashable:
    """Return a value that changes when the package of an entry point changes.

    Changes of its dependencies count too, since any installation changes the folder of packages.
    Only names and times are read; no code runs.

    Args:
        value: The entry point, ``module:attribute``.
        sites: Folders with path files, as editable installs have them; None: Python's folders.
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
    """Return the folders in which this process and new processes look for modules."""
    folders = {Path(each) for each in sys.path if each}
    for packages in sites:
        for path in Path(packages).glob("*.pth"):
            with contextlib.suppress(OSError):  # being replaced at this moment
                lines = path.read_text(errors="replace").splitlines()
                folders |= {Path(packages, line) for line in lines if not _is_code(line)}
    return folders


def _is_code(line: str) -> bool:
    return not line.strip() or line.startswith(("#", "import ", "import\t"))
