"""Creates the ServiceAccount ``default`` in every namespace, also after its deletion."""

from multiqueue.embedded.server.auth import service_account
from multiqueue.embedded.server.authz.tokens import ACCOUNTS
from multiqueue.embedded.server.background import Background
from multiqueue.embedded.server.create import create
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.status import StatusError
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.watch import Event

NAMESPACES = ("", "namespaces")
NAME = "default"
CONTROLLER = service_account("kube-system", "service-account-controller")


class DefaultAccounts:
    """Creates missing ServiceAccounts. Keys are namespaces."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.background: Background[str] = Background("default-service-accounts", self._ensure)

    def observe(self, event: Event) -> None:
        """Notice new namespaces and deleted ServiceAccounts."""
        entry = event.entry
        if entry.collection == NAMESPACES:
            if event.previous is None:
                self.background.add(entry.name)
        elif event.deleted and entry.collection == ACCOUNTS and entry.name == NAME:
            self.background.add(entry.namespace)

    def resume(self) -> None:
        """Queue every namespace once."""
        for entry in self._objects.store.collection(NAMESPACES).entries():
            self.background.add(entry.name)

    async def ensure_all(self) -> None:
        """Create missing accounts now, so that the server makes no writes of its own after its
        start.
        """
        for entry in list(self._objects.store.collection(NAMESPACES).entries()):
            await self._ensure(entry.name)

    async def _ensure(self, namespace: str) -> None:
        objects = self._objects
        if not _is_missing(objects.store, namespace):
            return
        kind = objects.registry.get(*ACCOUNTS)
        assert kind is not None, "service accounts are built in"
        target = OperationTarget(kind=kind, version=kind.storage_version, namespace=namespace)
        try:
            await create(objects, objects.call(CONTROLLER), target, {"metadata": {"name": NAME}})
        except StatusError as error:
            if error.code not in {404, 409} and _is_missing(objects.store, namespace):
                raise


def _is_missing(store: ObjectStore, namespace: str) -> bool:
    """Whether a namespace lacks the account and is not being deleted."""
    entry = store.get(NAMESPACES, "", namespace)
    if entry is None or entry.deleting:
        return False
    return store.get(ACCOUNTS, namespace, NAME) is None
