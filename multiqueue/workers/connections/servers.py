"""Which API server each MultiKueueCluster leads to; finds one worker under two names.

Under a second name, the same copies would look like losers and remnants, and be deleted. So only
one name of a server counts; the others say why they do not. It is the name that led to this server
before, as far as known: a name that gets the kubeconfig of another worker by mistake must not take
over its jobs. Otherwise it is the oldest. Two names lead to the same server if the identity is the
same that the server states when connected: one server may have many addresses. Until then it is the
identity of the server that the name was used with before. The address counts if one of the two
identities is not known: a wrong kubeconfig often has the address of another worker. The manager's
own server is in the table from the beginning, under a name that precedes all others: as a worker,
it would have the manager delete its own jobs.

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
        self._known: dict[str, str] = {}

    def add_own(self, server: str, identity: str) -> None:
        """Record the manager's own server, before any name.

        Args:
            server: Its address.
            identity: The identity that it states; empty if it cannot be read.
        """
        self._servers[HERE], self._ages[HERE] = server, (HERE, HERE)
        self._identities[HERE] = self._known[HERE] = identity or "the manager's own"

    def note_own(self, name: str) -> tuple[str, ...]:
        """Record that a name leads to the manager's own server, whatever identity that states.

        Returns:
            The other names of the servers that it joined and left: they must be judged again.
        """
        return self.identify(name, self._identities.get(HERE, ""))

    def remember(self, name: str, identity: str) -> None:
        """Record the identity of the server that a name was last used with; "" if not known."""
        self._known[name] = identity

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
        """Return the name of the same server that counts instead of this one; None: this one.

        It is the first other name that precedes this one. If only the past of this name makes it
        one of them, there is none: the name may connect, to learn where it leads now.
        """
        address = None if name in self._identities else self._servers.get(name)
        return min(
            (
                other
                for other in self._others(name)
                if self._rank(other) < self._rank(name)
                and (address is None or self._servers[other] == address)
            ),
            key=self._rank,
            default=None,
        )

    def is_past(self, name: str, elder: str) -> bool:
        """Whether only the last server of an elder is that of a name: it may lead elsewhere now."""
        return elder not in self._identities and self._servers[elder] != self._servers[name]

    def find_unidentified(self, name: str) -> Iterator[str]:
        """Yield the older names whose servers have not yet stated an identity."""
        age = self._ages.get(name)
        for other in self._servers:
            if age is not None and self._ages[other] < age and other not in self._identities:
                yield other

    def _rank(self, name: str) -> tuple[int, Age]:
        """Order the names of a server: those that it had before come first, then older ones.

        Between them are names that it may have had before: their servers have not stated yet.
        """
        known, stated = self._known.get(name), self._identities.get(name)
        place = 2
        if known and stated is None:
            place = 1
        elif known and stated == known:
            place = 0
        return place, self._ages[name]

    def _identity_of(self, name: str) -> str:
        """Return the identity of a name's server: what it states, or else that of the last one."""
        return self._identities.get(name, self._known.get(name, ""))

    def _others(self, name: str) -> Iterator[str]:
        """Yield the other names that lead to the same server."""
        server, identity = self._servers.get(name), self._identity_of(name)
        if server is None:
            return
        for other, address in self._servers.items():
            theirs = self._identity_of(other)
            same = identity == theirs if identity and theirs else address == server
            is_here = other == HERE and address == server  # its identity may be a stand-in
            if other != name and (same or is_here):
                yield other
