"""Keeps the rules of aggregated ClusterRoles equal to those of all selected roles."""

from collections.abc import Iterator

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
        self.background: Background[str] = Background("clusterrole-aggregation", self._aggregate)

    def observe(self, event: Event) -> None:
        """Notice a change of a ClusterRole: of one that collects, or of one that is collected."""
        if event.entry.collection == CLUSTER_ROLES:
            for name in _concerned(self._store, event):
                self.background.add(name)

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


def _concerned(store: ObjectStore, event: Event) -> Iterator[str]:
    """Names of the roles that collect others and may have other rules after this change."""
    states = [state for state in (event.entry, event.previous) if state is not None]
    for entry in store.collection(CLUSTER_ROLES).entries():
        if not _may_aggregate(entry):
            continue
        selectors = [label_selector_from(each) for each in _selectors(entry.decode())]
        if entry.name == event.entry.name or any(
            selector.matches(state.labels) for selector in selectors for state in states
        ):
            yield entry.name


def _may_aggregate(entry: StoredObject) -> bool:
    """Whether the bytes of a role contain an aggregation rule; only those are decoded."""
    return b'"aggregationRule"' in entry.raw and bool(_selectors(entry.decode()))


def _selectors(role: JsonObject) -> list[JsonObject]:
    rule = role.get("aggregationRule") or {}
    return list(rule.get("clusterRoleSelectors") or ())
