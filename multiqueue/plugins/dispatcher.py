"""The one thing that a dispatcher is: a name and a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from multiqueue.plugins.nomination import Nomination
from multiqueue.plugins.view import DispatchView


@runtime_checkable
class Dispatcher(Protocol):
    """Chooses the clusters that a Workload is offered to.

    One is made, without arguments, for each profile that names it; ``nominate`` is called in a
    process of its own (what is built in: in a thread), one call at a time. It gets everything in
    the view: there is no client, and the time is ``view.now``. The same view must give the same
    answer. A call that takes longer than the budget (a second) or raises leaves the Workload
    pending with that reason and disturbs nothing else.
    """

    name: str
    """How the configuration calls it; the entry point has the same name."""

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the clusters to offer the Workload to, in order, and why not the others."""
        ...


@runtime_checkable
class ChecksArguments(Protocol):
    """A dispatcher that can tell beforehand what is wrong with its arguments.

    Optional. Without it, arguments are only read when a Workload is dispatched.
    """

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return what is wrong, one text each, naming the argument; unknown ones too."""
        ...
