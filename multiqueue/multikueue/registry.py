"""Which dispatchers are installed, and which one the configuration names.

Any package may bring dispatchers: an entry point in the group ``multiqueue.dispatchers``, whose
name is what the configuration calls it. A plugin that cannot be found or loaded does not stop the
manager: Workloads stay pending and say why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from multiqueue.plugins import Dispatcher

ENTRY_POINT_GROUP = "multiqueue.dispatchers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The dispatcher that the configuration names.

    Attributes:
        name: As configured.
        dispatcher: None where there is a problem.
        problem: Why it cannot be used, and what to do; empty when it can.
    """

    name: str
    dispatcher: Dispatcher | None = None
    problem: str = ""


class Dispatchers:
    """Dispatchers by name, loaded when they are first asked for.

    Args:
        plugins: Ready-made ones, which come before installed ones of the same name.
        installed: Entry points; those of the environment by default.
    """

    def __init__(
        self,
        plugins: Mapping[str, Dispatcher] | None = None,
        *,
        installed: Iterable[EntryPoint] | None = None,
    ) -> None:
        self._plugins = dict(plugins or {})
        found = entry_points(group=ENTRY_POINT_GROUP) if installed is None else installed
        self._installed = {point.name: point for point in found}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that there is, sorted."""
        return tuple(sorted({*self._plugins, *self._installed}))

    def select(self, name: str) -> Selection:
        """Load the dispatcher of that name. Never raises."""
        plugin = self._plugins.get(name)
        if plugin is not None:
            return Selection(name=name, dispatcher=plugin)
        point = self._installed.get(name)
        if point is None:
            names = ", ".join(self.names) or "none"
            return _problem(
                name,
                f'dispatcher "{name}" is not installed; installed are: {names}. '
                "Install its package, or change multiKueue.dispatcherName",
            )
        try:
            dispatcher = point.load()()
        except Exception as error:  # noqa: BLE001 - whatever a stranger's package does
            words = f"{type(error).__name__}: {error}"
            return _problem(name, f'dispatcher "{name}" ({point.value}) cannot be loaded: {words}')
        if not isinstance(dispatcher, Dispatcher) or not callable(dispatcher.nominate):
            return _problem(
                name, f'dispatcher "{name}" ({point.value}) has no name or no nominate(view)'
            )
        self._plugins[name] = dispatcher
        return Selection(name=name, dispatcher=dispatcher)


def _problem(name: str, words: str) -> Selection:
    return Selection(name=name, problem=words)
