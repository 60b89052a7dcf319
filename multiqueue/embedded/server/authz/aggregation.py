"""Keeps the rules of aggregated ClusterRoles equal to those of all selected roles."""

from multiqueue.embedded.server.authz.policy import CLUSTER_ROLES
from multiqueue.embedded.server.background import Background
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.watch import Event
from multiqueue.lib.selectors import LabelSelector, label_selector_from


class AggregationController:
    """Aggregates again whenever a ClusterRole changes. Keys are names of aggregated roles."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._selectors: dict[str, list[LabelSelector]] | None = None
        self.background: Background[str] = Background("clusterrole-aggregation", self._aggregate)

    def observe(self, event: Event) -> None:
        """Notice a change of a ClusterRole: of one that collects, or of one that is collected."""
        role = event.entry
        if role.collection != CLUSTER_ROLES:
            return
        selectors = self._know(role, deleted=event.deleted)
        labels = [each.labels for each in (role, event.previous) if each is not None]
        for name, chosen in selectors.items():
            if name == role.name or any(one.matches(of) for one in chosen for of in labels):
                self.background.add(name)

    def _know(self, role: StoredObject, *, deleted: bool) -> dict[str, list[LabelSelector]]:
        """Return what each role collects that collects others, after a change of this one."""
        if self._selectors is None:
            names = _aggregated(self._store)
            entries = (self._store.get(CLUSTER_ROLES, "", name) for name in names)
            self._selectors = {e.name: _read_selectors(e) for e in entries if e is not None}
        if deleted or not _may_aggregate(role):
            self._selectors.pop(role.name, None)
        else:
            self._selectors[role.name] = _read_selectors(role)
        return self._selectors

    async def _aggregate(self, name: str) -> None:
        aggregate(self._store, name)


def aggregate_all(store: ObjectStore) -> None:
    """Aggregate until nothing changes: aggregated roles may collect each other."""
    while any([aggregate(store, name) for name in _aggregated(store)]):  # noqa: C419 - all of them
        pass


def aggregate(store: ObjectStore, name: str) -> bool:
    """Bring one role up to date; return whether it changed."""
    entry = store.get(CLUSTER_ROLES, "", name)
    if entry is None:
        return False
    role = entry.decode()
    selectors = _selectors(role)
    if not selectors:
        return False
    rules = _collected(store, name, [label_selector_from(each) for each in selectors])
    if rules == (role.get("rules") or []):
        return False
    store.put(CLUSTER_ROLES, {**role, "rules": rules})
    return True


def _collected(store: ObjectStore, name: str, selectors: list[LabelSelector]) -> list[JsonObject]:
    """Return the rules of the selected roles in the order of names, without repetitions."""
    rules: list[JsonObject] = []
    for other in store.collection(CLUSTER_ROLES).entries():
        if other.name != name and any(selector.matches(other.labels) for selector in selectors):
            rules += [each for each in other.decode().get("rules") or () if each not in rules]
    return rules


def _aggregated(store: ObjectStore) -> list[str]:
    """Names of the roles that collect others."""
    entries = store.collection(CLUSTER_ROLES).entries()
    return [entry.name for entry in entries if _may_aggregate(entry)]


def _may_aggregate(entry: StoredObject) -> bool:
    """Whether the bytes of a role contain an aggregation rule; only those are decoded."""
    return b'"aggregationRule"' in entry.raw and bool(_selectors(entry.decode()))


def _selectors(role: JsonObject) -> list[JsonObject]:
    rule = role.get("aggregationRule") or {}
    return list(rule.get("clusterRoleSelectors") or ())


def _read_selectors(entry: StoredObject) -> list[LabelSelector]:
    return [label_selector_from(each) for each in _selectors(entry.decode())]
