"""The most that the queues of each worker could ever hold, now or when last known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from multiqueue.capacity.worker_limits import WorkerLimits
from multiqueue.capacity.worker_state import WorkerState

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.workers.connections.fleet import Fleet
    from multiqueue.workers.connections.session import WorkerSession


class FleetLimits:
    """Keeps the limits of all workers of a fleet.

    Build it before other listeners of the fleet: they ask for limits when a worker comes or goes.

    Args:
        fleet: The workers, with a `WorkerState` each.
    """

    def __init__(self, fleet: Fleet) -> None:
        from multiqueue.workers.connections.fleet import FleetListener

        self._find_session = fleet.find_session
        self._sessions: dict[str, tuple[WorkerSession, WorkerLimits]] = {}
        # One for each name that ever existed; small compared with a connection.
        self._last: dict[str, WorkerLimits] = {}
        self._known: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        fleet.add_listener(
            FleetListener(
                on_remote=lambda _: None, on_connection=self._follow, on_room=lambda: None
            )
        )

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this whenever a limit may have changed; often several times in a row."""
        self._listeners.append(listener)

    def find(self, cluster: str) -> WorkerLimits | None:
        """Return the limits of a worker that are known now; None if they are not."""
        return self._last[cluster] if cluster in self._known else None

    def recall(self, cluster: str) -> WorkerLimits | None:
        """Return the limits last known; None if this process never knew any."""
        return self._last.get(cluster)

    def _follow(self, cluster: str) -> None:
        """Update when a worker came or went; another failed attempt changes nothing."""
        session, known = self._find_session(cluster), self._sessions.get(cluster)
        if session is None:
            self._sessions.pop(cluster, None)
        elif known is None or known[0] is not session:
            limits = WorkerLimits(session.informers, on_change=self._tell)
            self._sessions[cluster] = (session, limits)
            for informer in session.informers.queues:
                informer.add_listener(lambda _: self._note_progress(cluster))
        self._note_progress(cluster)

    def _note_progress(self, cluster: str) -> None:
        """Update when a worker's queues become known, or unknown."""
        found = self._sessions.get(cluster)
        state = found[0].find_part(WorkerState) if found is not None else None
        if found is None or state is None or not state.is_known:
            if cluster in self._known:
                self._known.remove(cluster)
                self._tell()
        elif cluster not in self._known or self._last[cluster] is not found[1]:
            self._last[cluster] = found[1]
            self._known.add(cluster)
            self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
