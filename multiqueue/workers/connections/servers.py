"""Which API server each MultiKueueCluster leads to; finds one worker under two names.

Under a second name, the same copies would look like losers and remnants, and be deleted. So only
the oldest name of a server counts; the others say why they do not. Two names lead to the same
server if the address is the same, or the identity that the server states when connected: one server
may have many addresses. The manager's own server is in the table from the beginning, under a name
older than all others: as a worker, it would have the manager delete its own jobs.

Deviates: upstream connects every name, and the names then delete each other's copies.
"""

from __future__ import annotations

from collections.abc import Iterator

Age = tuple[str, str]
"""When a MultiKueueCluster was created, and its name."""
HERE = ""
"""The name of the manager's own server, which no MultiKueueCluster can have."""


class ServerTable:
    """The names of each server."""

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}
        self._ages: dict[str, Age] = {}
        self._identities: dict[str, str] = {}

    def add_own(self, server: str, identity: str) -> None:
        """Record the manager's own server, before any name.

        Args:
            server: Its address.
            identity: The identity that it states; empty if it cannot be read.
        """
        self._servers[HERE], self._ages[HERE] = server, (HERE, HERE)
        self._identities[HERE] = identity or "the manager's own"

    def note_own(self, name: str) -> tuple[str, ...]:
        """Record that a name leads to the manager's own server, whatever identity that states.

        Returns:
            The other names of the servers that it joined and left: they must be judged again.
        """
        return self.identify(name, self._identities.get(HERE, ""))

    def update(self, age: Age, server: str | None, *, connected: bool = False) -> tuple[str, ...]:
        """Record where a name leads; None if that is not known.

        While the name is still connected to an older address, the identity of that server stays in
        force until the new server has stated its own: other names of the old one must not be used
        meanwhile.

        Returns:
            The other names of the servers that it joined and left: they must be judged again.
        """
        name = age[1]
        old = self._servers.get(name)
        if old == server:
            if server is not None:
                self._ages[name] = age
            return ()
        left = set(self._others(name))
        self._servers.pop(name, None)
        if server is None or not connected:
            self._identities.pop(name, None)
        if server is not None:
            self._servers[name], self._ages[name] = server, age
        return tuple(sorted((left | set(self._others(name))) - {HERE}))

    def identify(self, name: str, identity: str) -> tuple[str, ...]:
        """Record the identity that the server of a name states; "" if it does not tell.

        Returns:
            The other names of the servers that it joined and left: they must be judged again.
        """
        if name not in self._servers or self._identities.get(name) == identity:
            return ()
        left = set(self._others(name))
        self._identities[name] = identity
        return tuple(sorted((left | set(self._others(name))) - {HERE}))

    def find_elder(self, name: str) -> str | None:
        """Return the oldest other name of the same server if it is older than this one."""
        return min(
            (other for other in self._others(name) if self._ages[other] < self._ages[name]),
            key=self._ages.__getitem__,
            default=None,
        )

    def find_unidentified(self, name: str) -> Iterator[str]:
        """Yield the older names whose servers have not yet stated an identity."""
        age = self._ages.get(name)
        for other in self._servers:
            if age is not None and self._ages[other] < age and other not in self._identities:
                yield other

    def _others(self, name: str) -> Iterator[str]:
        """Yield the other names that lead to the same server."""
        server, identity = self._servers.get(name), self._identities.get(name)
        for other, address in self._servers.items():
            same = address == server or (identity and self._identities.get(other) == identity)
            if other != name and server is not None and same:
                yield other
