"""What the queues of each worker could ever hold, as known now, or as last known of a lost one."""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.capacity.worker_limits import WorkerLimits
from multiqueue.capacity.worker_state import WorkerState
from multiqueue.workers.connections.fleet import Fleet, FleetListener
from multiqueue.workers.connections.session import WorkerSession


class FleetLimits:
    """Follows the sessions of a fleet.

    Build it before other listeners of the fleet: they ask for the limits of who came or went.

    Args:
        fleet: The workers, with a `WorkerState` each.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._find_session = fleet.find_session
        self._sessions: dict[str, tuple[WorkerSession, WorkerLimits]] = {}
        # One for each name that there ever was; small beside what a connection costs.
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
        """Return the limits of a worker that can be believed now; None while there are none."""
        return self._last[cluster] if cluster in self._known else None

    def recall(self, cluster: str) -> WorkerLimits | None:
        """Return the limits that were last believed; None where this process never knew any."""
        return self._last.get(cluster)

    def _follow(self, cluster: str) -> None:
        """Take note that a worker came or went; another failed attempt is no news."""
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
        """What a worker says of its queues can be believed now, or no longer."""
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
