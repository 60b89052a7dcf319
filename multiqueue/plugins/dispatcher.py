"""The one thing that a dispatcher is: a name and a pure function."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from multiqueue.plugins.nomination import Nomination
from multiqueue.plugins.view import DispatchView


@runtime_checkable
class Dispatcher(Protocol):
    """Chooses the clusters that a Workload is offered to.

    The class is made once, without arguments, when the manager starts; ``nominate`` is called in a
    thread of its own, one call at a time. It gets everything in the view: there is no client, and
    the time is ``view.now``. The same view must give the same answer. A call that takes longer than
    the budget (a second) or raises leaves the Workload pending with that reason and disturbs
    nothing else.
    """

    name: str
    """How the configuration calls it; the entry point has the same name."""

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the clusters to offer the Workload to, in order, and why not the others."""
        ...
