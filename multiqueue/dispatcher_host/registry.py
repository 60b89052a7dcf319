"""Which dispatchers are installed, and which one a configuration names.

Any package may provide dispatchers by entry points in the group ``multiqueue.dispatchers``. The
name of the entry point is used in configurations. A plugin that cannot be found or loaded does not
stop the manager: Workloads stay pending and say why. A plugin that is installed while the manager
runs is found when a configuration names it. A plugin that is loaded in this process does not change
until the process is restarted. One that runs in a process of its own (`isolation`) is loaded again
with each new process.

A name with a ``/`` that is not installed means a controller outside of this program, as in upstream
(M-116); a name without one is a misspelt plugin.

A package that is installed while this process runs becomes importable. The times of its files and
folders say whether it may have changed.
"""

from __future__ import annotations

import contextlib
import importlib
import site
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import invalidate_caches
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from pathlib import Path

import structlog

from multiqueue.api.names import DISPATCHER
from multiqueue.dispatcher_host.make_dispatcher import EntryError, make_dispatcher
from multiqueue.plugins import Dispatcher

ENTRY_POINT_GROUP = "multiqueue.dispatchers"
OURS = "multiqueue_dispatchers."
"""Module prefix of the built-in dispatchers, which no other package may replace."""
EXTERNAL = "external"
"""Name of the dispatcher that follows a controller outside of this program."""

log = structlog.get_logger("multiqueue.dispatcher_host.registry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The dispatcher that a configuration names.

    Attributes:
        name: The configured name.
        dispatcher: The dispatcher; None if there is a problem.
        problem: Why it cannot be used, and what to do; empty if it can.
        notice: A remark about a usable dispatcher; empty if there is none.
        apart: Entry point of a third-party dispatcher, which is not loaded in this process; else
            empty.
        stamp: With ``apart``: a value that changes when its package changes.
        wrong_arguments: The problems that it found in its arguments, if it was asked; None: it does
            not check arguments.
    """

    name: str
    dispatcher: Dispatcher | None = None
    problem: str = ""
    notice: str = ""
    apart: str = ""
    stamp: Hashable = None
    wrong_arguments: tuple[str, ...] | None = ()


class Dispatchers:
    """Dispatchers by name, loaded when they are first requested.

    Args:
        plugins: Ready-made dispatchers, which replace installed ones of the same name.
        installed: Entry points; by default those of the environment, which are read again if a
            name is missing.
    """

    def __init__(
        self,
        plugins: Mapping[str, Dispatcher] | None = None,
        *,
        installed: Iterable[EntryPoint] | None = None,
    ) -> None:
        self._plugins = dict(plugins or {})
        self._is_fixed = installed is not None
        self._sites = PathSites()
        found = entry_points(group=ENTRY_POINT_GROUP) if installed is None else installed
        self._installed = _by_name(found)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all known dispatchers, sorted."""
        return tuple(sorted({*self._plugins, *self._installed}))

    def select(self, name: str, *, outside: bool = True) -> Selection:
        """Load the dispatcher of a name, which runs code of its package. Never raises.

        Each call makes a new instance, since two may be asked at the same time. Ready-made
        dispatchers are the same object each time.

        Args:
            name: The configured name.
            outside: Whether a name that is not installed may mean a controller outside.
        """
        found = self._look_up(name, outside=outside, look_again=self._sites.take_in_news)
        return _load(found) if found.apart else found

    def find(self, name: str, *, outside: bool = True) -> Selection:
        """Like `select`, but do not load third-party dispatchers: none of their code runs."""
        found = self._look_up(name, outside=outside, look_again=invalidate_caches)
        return _load(found) if found.apart.startswith(OURS) else found

    def _look_up(self, name: str, *, outside: bool, look_again: Callable[[], None]) -> Selection:
        """Find a dispatcher by name; an installed one is not loaded yet."""
        plugin = self._plugins.get(name)
        if plugin is not None:
            return Selection(name=name, dispatcher=plugin)
        point = self._installed.get(name)
        if not (self._is_fixed or (point is not None and point.value.startswith(OURS))):
            # It may have been installed or upgraded meanwhile.
            look_again()
            self._installed = _by_name(entry_points(group=ENTRY_POINT_GROUP))
            point = self._installed.get(name)
        if point is not None:
            return Selection(name=name, apart=point.value, stamp=stamp_package(point.value))
        if outside and "/" in name and EXTERNAL in self.names:
            return replace(self.select(EXTERNAL), name=name, notice=_describe_external(name))
        return Selection(name=name, problem=self._describe_missing(name, outside=outside))

    def _describe_missing(self, name: str, *, outside: bool) -> str:
        names = ", ".join(self.names) or "none"
        close = get_close_matches(name, self.names, n=1)
        hint = f'; did you mean "{close[0]}"? Installed' if close else "; installed"
        words = f'dispatcher "{name}" is not installed{hint} are: {names}'
        if not outside:
            return words
        return f"{words}. Install its package, or change multiKueue.dispatcherName or {DISPATCHER}"


def _load(found: Selection) -> Selection:
    try:
        return Selection(name=found.name, dispatcher=make_dispatcher(found.apart))
    except EntryError as error:
        return Selection(name=found.name, problem=f'dispatcher "{found.name}" {error}')


def _by_name(points: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    """Return entry points by name; for equal names ours comes first, then the first package."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(points, key=lambda p: (not p.value.startswith(OURS), p.value)):
        first = found.setdefault(point.name, point)
        if first.value != point.value:
            log.warning(
                "two dispatchers of one name", name=point.name, used=first.value, left=point.value
            )
    return found


def _describe_external(name: str) -> str:
    return (
        f'dispatcher "{name}" is not installed; a controller of that name outside of this program '
        "is expected to write status.nominatedClusterNames"
    )


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
