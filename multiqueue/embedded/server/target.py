"""The object or collection that an operation is about."""

from dataclasses import dataclass

from multiqueue.embedded.server.entry import StoredObject, in_version
from multiqueue.embedded.server.kinds import Kind, KindVersion
from multiqueue.embedded.server.store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTarget:
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

    def raw(self, entry: StoredObject) -> bytes:
        """An object's JSON in this version."""
        return in_version(self.kind, self.version, entry)

    def find(self, store: ObjectStore) -> StoredObject | None:
        """The object."""
        return store.get(self.kind.key, self.namespace, self.name)


def target_of(kind: Kind, entry: StoredObject) -> OperationTarget:
    """An object as the server itself addresses it: in its storage version."""
    return OperationTarget(
        kind=kind, version=kind.storage_version, namespace=entry.namespace, name=entry.name
    )
