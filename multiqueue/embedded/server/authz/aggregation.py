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
            self._selectors = _find_aggregated(self._store)
        self._selectors.pop(role.name, None)
        if not deleted and (selectors := _read_selectors(role)):
            self._selectors[role.name] = selectors
        return self._selectors

    async def _aggregate(self, name: str) -> None:
        aggregate(self._store, name)


def aggregate_all(store: ObjectStore) -> None:
    """Aggregate until nothing changes: aggregated roles may collect each other."""
    while any([aggregate(store, name) for name in _find_aggregated(store)]):  # noqa: C419 - all of them
        pass


def aggregate(store: ObjectStore, name: str) -> bool:
    """Bring one role up to date; return whether it changed."""
    entry = store.get(CLUSTER_ROLES, "", name)
    if entry is None:
        return False
    selectors = _read_selectors(entry)
    if not selectors:
        return False
    role, rules = entry.decode(), _collected(store, name, selectors)
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


def _find_aggregated(store: ObjectStore) -> dict[str, list[LabelSelector]]:
    """Return the roles that collect others, with what they collect."""
    entries = store.collection(CLUSTER_ROLES).entries()
    return {entry.name: found for entry in entries if (found := _read_selectors(entry))}


def _read_selectors(entry: StoredObject) -> list[LabelSelector]:
    """Return what a role collects. Only a role whose bytes have an aggregation rule is decoded."""
    if b'"aggregationRule"' not in entry.raw:
        return []
    rule = entry.decode().get("aggregationRule") or {}
    return [label_selector_from(each) for each in rule.get("clusterRoleSelectors") or ()]
