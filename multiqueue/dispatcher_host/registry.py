"""Which dispatchers are installed, and which one a configuration names.

Any package may bring dispatchers: an entry point in the group ``multiqueue.dispatchers``, whose
name is what the configuration calls it. A plugin that cannot be found or loaded does not stop the
manager: Workloads stay pending and say why. One that is installed while the manager runs is found
when somebody names it. What is loaded into this process stays as it is until that is started again;
what is left apart (`isolation`) is loaded anew with each process of its own.

A name with a ``/`` that is not installed means a controller outside of this program, as in upstream
(M-116); a bare one is a misspelt plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import invalidate_caches
from importlib.metadata import EntryPoint, entry_points

import structlog

from multiqueue.api.names import DISPATCHER
from multiqueue.dispatcher_host.entry import EntryError, make_dispatcher
from multiqueue.dispatcher_host.package_stamp import stamp_package
from multiqueue.dispatcher_host.sites import PathSites
from multiqueue.plugins import Dispatcher

ENTRY_POINT_GROUP = "multiqueue.dispatchers"
OURS = "multiqueue_dispatchers."
"""What no other package may take the place of."""
EXTERNAL = "external"
"""The dispatcher that follows a controller outside of this program."""

log = structlog.get_logger("multiqueue.dispatcher_host.registry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The dispatcher that a configuration names.

    Attributes:
        name: As configured.
        dispatcher: None where there is a problem.
        problem: Why it cannot be used, and what to do; empty when it can.
        notice: What to know of one that can be used; empty: nothing.
        apart: Not empty: it is a stranger's that is not to be loaded here; its entry point.
        stamp: Of what is left apart: another value once its package is another one.
        wrong_arguments: What it says is wrong with its arguments, where it was asked; None: it
            cannot tell.
    """

    name: str
    dispatcher: Dispatcher | None = None
    problem: str = ""
    notice: str = ""
    apart: str = ""
    stamp: Hashable = None
    wrong_arguments: tuple[str, ...] | None = ()


class Dispatchers:
    """Dispatchers by name, loaded when they are first asked for.

    Args:
        plugins: Ready-made ones, which come before installed ones of the same name.
        installed: Entry points; by default those of the environment, read again where a name is
            missing.
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
        """Names of all that there is, sorted."""
        return tuple(sorted({*self._plugins, *self._installed}))

    def select(self, name: str, *, outside: bool = True) -> Selection:
        """Load the dispatcher of that name; runs code of its package. Never raises.

        Each call makes another one: two may be asked at the same time. Those that were given ready
        made are the same each time.

        Args:
            name: As configured.
            outside: Whether a name that is not installed may mean a controller outside.
        """
        found = self._look_up(name, outside=outside, look_again=self._sites.take_in_news)
        return _load(found) if found.apart else found

    def find(self, name: str, *, outside: bool = True) -> Selection:
        """Do as `select` does, but leave a stranger's dispatcher apart: none of its code runs."""
        found = self._look_up(name, outside=outside, look_again=invalidate_caches)
        return _load(found) if found.apart.startswith(OURS) else found

    def _look_up(self, name: str, *, outside: bool, look_again: Callable[[], None]) -> Selection:
        """Find one; what is installed is left apart."""
        plugin = self._plugins.get(name)
        if plugin is not None:
            return Selection(name=name, dispatcher=plugin)
        point = self._installed.get(name)
        if not (self._is_fixed or (point is not None and point.value.startswith(OURS))):
            # It may have been installed meanwhile, or upgraded.
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
    """Return entry points by name: of several our own counts, else the first by its package."""
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
