"""What was really the case in a run, beside what the managers could know.

Checkers compare what the managers did with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from multiqueue.workers.connections.fleet import Fleet, FleetListener
from multiqueue.workers.connections.session import WorkerSession
from multiqueue.workers.connections.session_run import PING_TIMEOUT
from tests.fleet.kinds import INTEGRATIONS
from tests.fleet.network import host_of

FAR_PAST = float("-inf")


class Spells:
    """Since when something has not been well, by name; `FAR_PAST` while it is.

    Attributes:
        since: As far as anybody can know who was not there.
        begun: When it really began.
        ended: When the last one ended.
    """

    def __init__(self, clock: Callable[[], float], names: list[str]) -> None:
        self.since: dict[str, float] = dict.fromkeys(names, 0.0)
        self.begun: dict[str, float] = dict.fromkeys(names, 0.0)
        self.ended: dict[str, float] = dict.fromkeys(names, FAR_PAST)
        self._before = dict(self.since)
        self._clock = clock

    def note(self, name: str, *, well: bool, forgotten: bool, silent_for: float) -> None:
        """Take in how it is now; what is forgotten, is as if it had not been well meanwhile.

        What is not well has not been so for the seconds it was silent.
        """
        since = self.since[name]
        if well and since != FAR_PAST:
            self._before[name], self.since[name] = since, FAR_PAST
            self.ended[name] = self._clock()
        elif not well and since == FAR_PAST:
            self.begun[name] = self._clock() - silent_for
            self.since[name] = self._before[name] if forgotten else self.begun[name]


class Truth:
    """Who was connected, disturbed and lost since when; seconds since the run began.

    Args:
        clock: Seconds since the run began.
        workers: Names of all workers.
        is_recorded: Whether the managers' API says of a worker that it is connected.
        kinds: The kinds of jobs.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        workers: list[str],
        is_recorded: Callable[[str], bool],
        kinds: frozenset[str],
    ) -> None:
        self._clock = clock
        self._is_recorded = is_recorded
        self._kinds = [INTEGRATIONS[kind].gvk for kind in sorted(kinds)]
        self._fleets: dict[str, Fleet] = {}
        self._lost = Spells(clock, workers)
        self._blind = Spells(clock, workers)
        self._calm_since: dict[str, float | None] = dict.fromkeys(workers, 0.0)
        self._last_calm: dict[str, tuple[float, float]] = {}
        self.blows: dict[tuple[str, str], float] = {}
        """When somebody else last did something to the copy or job of a key on a cluster."""
        self.restored: set[tuple[str, str]] = set()
        """What a backup of a cluster brought back or took away: cluster and key."""

    # ------------------------------------------------------------ connections

    def follow(self, group: str, fleet: Fleet) -> None:
        """Watch the connections of a manager's process."""
        self._fleets[group] = fleet
        fleet.add_listener(
            FleetListener(
                on_remote=lambda _: None,
                on_connection=self._on_connection,
                on_room=lambda: None,
            )
        )

    def forget(self, group: str) -> Fleet | None:
        """A process ended, and its connections with it."""
        fleet = self._fleets.pop(group, None)
        if fleet is not None:
            for name in self._lost.since:
                self._note(name, fleet)
        return fleet

    def remember(self, group: str, fleet: Fleet) -> None:
        """A process goes on that was stopped."""
        self._fleets[group] = fleet
        for name in self._lost.since:
            self._note(name, None)

    def is_connected(self, cluster: str) -> bool:
        """Whether some manager is connected to a worker."""
        return any(self._find_sessions(cluster))

    def lost_for(self, cluster: str) -> float:
        """For how many seconds no manager has been connected to a worker; 0 where one is."""
        if self.is_connected(cluster):
            return 0.0
        return self._clock() - self._lost.since[cluster]

    def blind_for(self, cluster: str) -> float:
        """For how many seconds no manager has been shown the jobs of a worker; 0 where one is."""
        if self._sees_jobs(cluster):
            return 0.0
        return self._clock() - self._blind.since[cluster]

    def seen_again_at(self, cluster: str) -> float:
        """When a manager was last shown the jobs of a worker again."""
        return self._blind.ended[cluster]

    def _sees_jobs(self, cluster: str) -> bool:
        return any(
            all(map(session.knows_jobs, self._kinds)) for session in self._find_sessions(cluster)
        )

    def _find_sessions(self, cluster: str) -> Iterator[WorkerSession]:
        """Yield the sessions with a worker: its name may have the kubeconfig of another one."""
        for fleet in self._fleets.values():
            session = fleet.find_session(cluster)
            if session is not None and host_of(session.client.credentials) == cluster:
                yield session

    def _on_connection(self, name: str) -> None:
        if name in self._lost.since:
            self._note(name, None)

    def _note(self, name: str, ended: Fleet | None) -> None:
        # Who ended before it could say that the worker is back leaves what was known before.
        forgotten = ended is not None and not self._is_recorded(name)
        # A ping that is not answered tells that the worker was silent since it was sent.
        silent_for = min(self._disturbed_for(name), PING_TIMEOUT)
        self._blind.note(
            name, well=self._sees_jobs(name), forgotten=forgotten, silent_for=silent_for
        )
        self._lost.note(
            name, well=self.is_connected(name), forgotten=forgotten, silent_for=silent_for
        )

    # ------------------------------------------------------------ disturbances

    def set_calm(self, cluster: str, *, calm: bool) -> None:
        """Note whether anything is wrong between the managers and a worker now."""
        since = self._calm_since[cluster]
        if calm and since is None:
            self._calm_since[cluster] = self._clock()
        elif not calm and since is not None:
            self._last_calm[cluster] = (since, self._clock())
            self._calm_since[cluster] = None

    def _disturbed_for(self, cluster: str) -> float:
        """For how many seconds something has been wrong; 0 where nothing is."""
        if self._calm_since[cluster] is not None:
            return 0.0
        return self._clock() - self._last_calm[cluster][1]

    def calm_for(self, cluster: str) -> float:
        """For how many seconds nothing has been wrong; 0 where something is."""
        since = self._calm_since[cluster]
        return 0.0 if since is None else self._clock() - since

    def calm_while_lost(self, cluster: str, grace: float) -> float:
        """The longest stretch without disturbance between the loss of a worker and its grace's end.

        As far as known: of those that ended, the last counts.
        """
        begin = self._lost.begun[cluster]
        end = min(begin + grace, self._clock())
        since = self._calm_since[cluster]
        stretches = [] if since is None else [(since, end)]
        if cluster in self._last_calm:
            stretches.append(self._last_calm[cluster])
        return max((min(until, end) - max(start, begin) for start, until in stretches), default=0.0)

    # ------------------------------------------------------------ blows

    def strike(self, cluster: str, key: str) -> None:
        """Note that somebody did something to what runs for a key on a cluster."""
        self.blows[cluster, key] = self._clock()
