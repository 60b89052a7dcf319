"""Namespaces: objects need one that is not terminating; its deletion deletes them."""

from datetime import UTC, datetime

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.auth import NAMESPACE_CONTROLLER
from multiqueue.embedded.server.background import Background
from multiqueue.embedded.server.delete import delete_all, is_finished
from multiqueue.embedded.server.metadata import generated_uid
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.status import forbidden, not_found
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.watch import Event

KEY = ("", "namespaces")
INITIAL = ("default", "kube-node-lease", "kube-public", "kube-system")
IMMORTAL = ("default", "kube-public", "kube-system")


def check_namespace(objects: Objects, target: OperationTarget) -> None:
    """Refuse content for a namespace that does not exist or goes away.

    Raises:
        StatusError: 403 or 404.
    """
    if not target.kind.namespaced:
        return
    entry = objects.store.get(KEY, "", target.namespace)
    kind = objects.registry.get(*KEY)
    assert kind is not None, "namespaces are built in"
    if entry is None:
        raise not_found(kind, target.namespace)
    if entry.deleting:
        why = (
            f"unable to create new content in namespace {target.namespace} "
            "because it is being terminated"
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {target.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(target.kind, target.name, why, [cause])


def check_mortal(target: OperationTarget) -> None:
    """Refuse to delete the namespaces that a cluster cannot be without.

    Raises:
        StatusError: 403.
    """
    if target.kind.key == KEY and target.name in IMMORTAL:
        raise forbidden(target.kind, target.name, "this namespace may not be deleted")


def create_initial(store: ObjectStore, now: datetime) -> None:
    """Make the namespaces that every cluster has."""
    for name in INITIAL:
        if store.get(KEY, "", name) is None:
            metadata = {
                "name": name,
                "uid": generated_uid(),
                "creationTimestamp": format_time(now.astimezone(UTC)),
                "labels": {"kubernetes.io/metadata.name": name},
            }
            store.put(
                KEY,
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": metadata,
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                },
            )


class NamespaceController:
    """Empties namespaces that are being deleted, then lets them go. Keys are namespace names."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.background: Background[str] = Background("namespaces", self._empty)

    def observe(self, event: Event) -> None:
        """Notice a namespace that goes away, and content that left one."""
        entry = event.entry
        if entry.collection == KEY:
            if entry.deleting and not event.deleted:
                self.background.add(entry.name)
        elif event.deleted and entry.namespace:
            namespace = self._objects.store.get(KEY, "", entry.namespace)
            if namespace is not None and namespace.deleting:
                self.background.add(entry.namespace)

    def resume(self) -> None:
        """Go on where a stopped server was."""
        for entry in self._objects.store.collection(KEY).entries():
            if entry.deleting:
                self.background.add(entry.name)

    async def _empty(self, name: str) -> None:
        store = self._objects.store
        namespace = store.get(KEY, "", name)
        if namespace is None or not namespace.deleting:
            return
        call = self._objects.call(NAMESPACE_CONTROLLER)
        remaining = 0
        for kind in self._objects.registry:
            if kind.namespaced:
                remaining += await delete_all(self._objects, call, kind, name)
        if not remaining:
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        entry = self._objects.store.get(KEY, "", name)
        if entry is None:
            return
        obj = entry.decode()
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": []}
        if is_finished(obj):
            self._objects.store.remove(entry, obj)
        else:
            self._objects.store.put(KEY, obj)
