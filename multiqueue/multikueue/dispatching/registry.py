"""Which dispatchers are installed, and which one a configuration names.

Any package may bring dispatchers: an entry point in the group ``multiqueue.dispatchers``, whose
name is what the configuration calls it. A plugin that cannot be found or loaded does not stop the
manager: Workloads stay pending and say why. One that is installed while the manager runs is found
when somebody names it; one that was loaded already stays as it is until the manager is started
again.

A name with a ``/`` that is not installed means a controller outside of this program, as in upstream
(M-116); a bare one is a misspelt plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import cast

import structlog

from multiqueue.api.names import DISPATCHER
from multiqueue.multikueue.dispatching.plugin_thread import describe_error
from multiqueue.multikueue.dispatching.sites import Sites
from multiqueue.plugins import Dispatcher

ENTRY_POINT_GROUP = "multiqueue.dispatchers"
OURS = "multiqueue_dispatchers."
"""What no other package may take the place of."""
EXTERNAL = "external"
"""The dispatcher that follows a controller outside of this program."""

log = structlog.get_logger("multiqueue.multikueue.dispatching.registry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The dispatcher that a configuration names.

    Attributes:
        name: As configured.
        dispatcher: None where there is a problem.
        problem: Why it cannot be used, and what to do; empty when it can.
        notice: What to know of one that can be used; empty: nothing.
    """

    name: str
    dispatcher: Dispatcher | None = None
    problem: str = ""
    notice: str = ""


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
        self._sites = Sites()
        found = entry_points(group=ENTRY_POINT_GROUP) if installed is None else installed
        self._installed = _by_name(found)
        self._classes: dict[str, Callable[[], object]] = {}

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
        plugin = self._plugins.get(name)
        if plugin is not None:
            return Selection(name=name, dispatcher=plugin)
        point = self._installed.get(name) or self._look_again(name)
        if point is None and outside and "/" in name and EXTERNAL in self.names:
            return replace(self.select(EXTERNAL), name=name, notice=_describe_external(name))
        if point is None:
            names = ", ".join(self.names) or "none"
            return _problem(
                name,
                f'dispatcher "{name}" is not installed; installed are: {names}. '
                f"Install its package, or change multiKueue.dispatcherName or {DISPATCHER}"
                if outside
                else f'dispatcher "{name}" is not installed; installed are: {names}',
            )
        return self._load(point)

    def _look_again(self, name: str) -> EntryPoint | None:
        """Read entry points again: a package may have been installed meanwhile."""
        if not self._is_fixed:
            self._sites.take_in_news()
            self._installed = _by_name(entry_points(group=ENTRY_POINT_GROUP))
        return self._installed.get(name)

    def _load(self, point: EntryPoint) -> Selection:
        name = point.name
        try:
            if name not in self._classes:
                self._classes[name] = point.load()
            dispatcher = self._classes[name]()
            is_one = isinstance(dispatcher, Dispatcher) and callable(dispatcher.nominate)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a stranger's package does
            words = describe_error(error)
            return _problem(name, f'dispatcher "{name}" ({point.value}) cannot be loaded: {words}')
        if not is_one:
            return _problem(
                name, f'dispatcher "{name}" ({point.value}) has no name or no nominate(view)'
            )
        return Selection(name=name, dispatcher=cast("Dispatcher", dispatcher))


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


def _problem(name: str, words: str) -> Selection:
    return Selection(name=name, problem=words)
