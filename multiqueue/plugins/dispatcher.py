"""The interface of a dispatcher: a name and a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from multiqueue.plugins.nomination import Nomination
from multiqueue.plugins.view import DispatchView


@runtime_checkable
class Dispatcher(Protocol):
    """Chooses the clusters to which a Workload is offered.

    The manager makes one instance, without arguments, for each profile that names the dispatcher.
    It calls ``nominate`` in a separate process (for built-in dispatchers: in a thread), one call at
    a time. The view contains all input: there is no client, and the time is ``view.now``. The same
    view must give the same answer. If a call raises, or takes longer than the budget (a second),
    the Workload stays pending with that reason; nothing else is affected.
    """

    name: str
    """The name used in the configuration; the entry point has the same name."""

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the clusters to offer the Workload to, in order, with the reasons for all."""
        ...


@runtime_checkable
class ChecksArguments(Protocol):
    """A dispatcher that can check its arguments before the first Workload.

    Optional. Without this method, arguments are only read when a Workload is dispatched.
    """

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return one text per problem, naming the argument; unknown arguments are problems too."""
        ...
