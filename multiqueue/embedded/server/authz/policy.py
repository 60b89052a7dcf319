"""Roles and bindings as they are stored, by whom they concern."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from multiqueue.embedded.server.auth import ApiUser, service_account_name
from multiqueue.embedded.server.authz.rules import PolicyRule, parse_rules
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.kinds import GroupPlural
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.watch import Event

GROUP = "rbac.authorization.k8s.io"
ROLES: GroupPlural = (GROUP, "roles")
CLUSTER_ROLES: GroupPlural = (GROUP, "clusterroles")
ROLE_BINDINGS: GroupPlural = (GROUP, "rolebindings")
CLUSTER_ROLE_BINDINGS: GroupPlural = (GROUP, "clusterrolebindings")

_ROLE_KEYS = (ROLES, CLUSTER_ROLES)
_BINDING_KEYS = (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)

Who = tuple[str, str]
"""("User", name) or ("Group", name); a ServiceAccount is the user it is logged in as."""


@dataclass(frozen=True, slots=True)
class RoleBinding:
    """A RoleBinding, or a ClusterRoleBinding where the namespace is empty."""

    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: tuple[tuple[Who, str], ...]
    """Whom it concerns, with the words for it."""

    def words_for(self, everybody: frozenset[Who]) -> str:
        """Why it grants something to one of these."""
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        subject = next(words for who, words in self.subjects if who in everybody)
        return f'{kind} "{name}" of {self.role_kind} "{self.role}" to {subject}'


class Grant(NamedTuple):
    """A rule that holds for somebody, and why."""

    rule: PolicyRule
    source: str


@dataclass(frozen=True, slots=True)
class Grants:
    """What somebody has in one namespace, and which roles they should have but are not there."""

    rules: tuple[Grant, ...]
    missing: tuple[str, ...]


class Policy:
    """An index of the stored roles and bindings, kept up to date change by change."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}
        self._bindings: dict[tuple[str, Who], dict[str, RoleBinding]] = {}

    def load(self, store: ObjectStore) -> None:
        """Take over what is stored."""
        for key in (*_ROLE_KEYS, *_BINDING_KEYS):
            for entry in store.collection(key).entries():
                self._add(entry)

    def observe(self, event: Event) -> bool:
        """Follow a change; whether it was about roles or bindings."""
        key = event.entry.collection
        if key[0] != GROUP:
            return False
        if key in _BINDING_KEYS and event.previous is not None:
            self._remove_binding(binding_of(event.previous))
        if not event.deleted:
            self._add(event.entry)
        elif key in _ROLE_KEYS:
            self._rules.pop((event.entry.namespace, event.entry.name), None)
        return True

    def rules_of(self, kind: str, name: str, namespace: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a role that a binding in this namespace names; None: there is none."""
        return self._rules.get((namespace if kind == "Role" else "", name))

    def grants(self, user: ApiUser, namespace: str) -> Grants:
        """What a user has: cluster-wide, and in a namespace if one is given."""
        everybody = who_is(user)
        rules: list[Grant] = []
        missing: list[str] = []
        for scope in dict.fromkeys(("", namespace)):
            for binding in self._bindings_of(everybody, scope):
                found = self.rules_of(binding.role_kind, binding.role, scope)
                if found is None:
                    kind = binding.role_kind.lower()
                    missing.append(f'{kind}.{GROUP} "{binding.role}" not found')
                    continue
                words = binding.words_for(everybody)
                rules += [Grant(rule, words) for rule in found]
        return Grants(tuple(rules), tuple(missing))

    def _bindings_of(self, everybody: frozenset[Who], scope: str) -> Iterator[RoleBinding]:
        """By name: a server that remembers them in no order gives any of several reasons."""
        found: dict[str, RoleBinding] = {}
        for who in everybody:
            found |= self._bindings.get((scope, who), {})
        yield from (found[name] for name in sorted(found))

    def _add(self, entry: StoredObject) -> None:
        if entry.collection in _ROLE_KEYS:
            self._rules[entry.namespace, entry.name] = parse_rules(entry.decode())
            return
        binding = binding_of(entry)
        for who, _ in binding.subjects:
            self._bindings.setdefault((binding.namespace, who), {})[binding.name] = binding

    def _remove_binding(self, binding: RoleBinding) -> None:
        for who in dict(binding.subjects):
            key = (binding.namespace, who)
            bindings = self._bindings[key]
            del bindings[binding.name]
            if not bindings:
                del self._bindings[key]


def who_is(user: ApiUser) -> frozenset[Who]:
    """Under which names bindings may mean a user."""
    return frozenset([("User", user.name), *(("Group", group) for group in user.groups)])


def binding_of(entry: StoredObject) -> RoleBinding:
    """A stored binding; one that was kept before bindings were checked may lack anything."""
    obj = entry.decode()
    reference = obj.get("roleRef") or {}
    return RoleBinding(
        namespace=entry.namespace,
        name=entry.name,
        role_kind=reference.get("kind", ""),
        role=reference.get("name", ""),
        subjects=tuple(
            subject
            for each in obj.get("subjects") or ()
            if (subject := _subject(each, entry.namespace)) is not None
        ),
    )


def _subject(subject: Mapping[str, Any], namespace: str) -> tuple[Who, str] | None:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind != "ServiceAccount":
        return (kind, name), f'{kind} "{name}"'
    namespace = subject.get("namespace") or namespace
    if not namespace:
        return None
    return ("User", service_account_name(namespace, name)), f'{kind} "{name}/{namespace}"'
