"""Describe in one line what foreign code raised, and where."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb

OURS = Path(__file__).parent.parent
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
PACKAGES = ("site-packages", "dist-packages")
MOST_TEXT = 800
"""Most characters of the error's own text, so that the place after it is not cut off."""


def describe_error(error: BaseException) -> str:
    """Return what was raised: ``KeyError: 'speeds' (dispatcher.py, line 31)``.

    The place is the last line in the package of the foreign code that was called first. It is
    neither in this program nor in a library that the foreign code called. Converting the error to
    text may raise as well.
    """
    kind = type(error).__name__
    try:
        text = f"{error}"[:MOST_TEXT]
    except BaseException:  # noqa: BLE001 - a stranger's text may raise anything
        return f"{kind} (its text cannot be shown)"
    words, place = (f"{kind}: {text}" if text else kind), _find_place(error)
    return f"{words} ({place})" if place else words


def _find_place(error: BaseException) -> str:
    places = list(_list_places(error))
    if not places:
        return ""
    home = places[0][0].parent
    path, line = next(place for place in reversed(places) if place[0].is_relative_to(home))
    return f"{path.name}, line {line}"


def _list_places(error: BaseException) -> Iterator[tuple[Path, int]]:
    for frame, line in walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if not (path.is_relative_to(OURS) or _is_standard(path)):
            yield path, line


def _is_standard(path: Path) -> bool:
    if str(path).startswith("<"):
        return True
    return path.is_relative_to(STANDARD_LIBRARY) and not any(p in path.parts for p in PACKAGES)
