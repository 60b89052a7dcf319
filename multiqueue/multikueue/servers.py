"""Which API server each MultiKueueCluster leads to: one worker under two names is found here.

Under a second name the same copies would look like losers and left-overs, and be deleted. So only
the oldest name of a server counts; the others say why they do not.

Deviates: upstream connects every name, and the names then clean up after each other.
"""

from __future__ import annotations

from collections.abc import Iterator

Age = tuple[str, str]
"""When a MultiKueueCluster was created, and its name."""


class ServerTable:
    """Names by the server that they lead to."""

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}
        self._ages: dict[str, Age] = {}

    def update(self, age: Age, server: str | None) -> tuple[str, ...]:
        """Note where a name leads; None where that is not known.

        Returns:
            The other names of the servers that it came to and left: they have to be judged again.
        """
        name = age[1]
        old = self._servers.pop(name, None)
        if server is not None:
            self._servers[name], self._ages[name] = server, age
        if old == server:
            return ()
        return tuple(sorted({*self._names_of(old), *self._names_of(server)} - {name}))

    def find_elder(self, name: str) -> str | None:
        """Return the oldest other name of the same server, where it is older than this one."""
        server = self._servers.get(name)
        oldest = min(self._names_of(server), key=self._ages.__getitem__, default=name)
        return None if oldest == name else oldest

    def _names_of(self, server: str | None) -> Iterator[str]:
        return (name for name, known in self._servers.items() if known == server)
