"""What an operation is about."""

from dataclasses import dataclass

from multiqueue.embedded.server.entry import Entry, in_version
from multiqueue.embedded.server.kinds import Kind, KindVersion
from multiqueue.embedded.server.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which object or collection an operation is about, and in which version."""

    kind: Kind
    version: KindVersion
    namespace: str = ""
    """Empty for cluster-scoped kinds, and for lists over all namespaces."""
    name: str = ""
    subresource: str = ""

    @property
    def api_version(self) -> str:
        """``batch/v1``."""
        return self.kind.api_version(self.version.name)

    def raw(self, entry: Entry) -> bytes:
        """An object's JSON in this version."""
        return in_version(self.kind, self.version, entry)

    def find(self, store: Store) -> Entry | None:
        """The object."""
        return store.get(self.kind.storage_key, self.namespace, self.name)


def target_of(kind: Kind, entry: Entry) -> Target:
    """An object as the server itself addresses it: in its storage version."""
    return Target(
        kind=kind, version=kind.storage_version, namespace=entry.namespace, name=entry.name
    )
