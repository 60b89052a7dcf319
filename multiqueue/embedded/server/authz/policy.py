"""An index of the stored roles and bindings by their subjects."""

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
"""("User", name) or ("Group", name); a ServiceAccount counts as its user."""


@dataclass(frozen=True, slots=True)
class RoleBinding:
    """A RoleBinding, or a ClusterRoleBinding if the namespace is empty."""

    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: tuple[tuple[Who, str], ...]
    """The binding's subjects, with their description for reasons."""

    def words_for(self, everybody: frozenset[Who]) -> str:
        """Return the reason why the binding grants something to one of these subjects."""
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        subject = next(words for who, words in self.subjects if who in everybody)
        return f'{kind} "{name}" of {self.role_kind} "{self.role}" to {subject}'


class Grant(NamedTuple):
    """A rule that applies to a user, and the reason."""

    rule: PolicyRule
    source: str


@dataclass(frozen=True, slots=True)
class Grants:
    """The rules of a user in one namespace, and the bound roles that do not exist."""

    rules: tuple[Grant, ...]
    missing: tuple[str, ...]


class Policy:
    """An index of the stored roles and bindings, kept up to date change by change."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}
        self._bindings: dict[tuple[str, Who], dict[str, RoleBinding]] = {}

    def load(self, store: ObjectStore) -> None:
        """Index the stored roles and bindings."""
        for key in (*_ROLE_KEYS, *_BINDING_KEYS):
            for entry in store.collection(key).entries():
                self._add(entry)

    def observe(self, event: Event) -> bool:
        """Follow a change; return whether it was of a role or a binding."""
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
        """Return the rules of a role that a binding in this namespace names; None if it is
        missing.
        """
        return self._rules.get((namespace if kind == "Role" else "", name))

    def grants(self, user: ApiUser, namespace: str) -> Grants:
        """Return a user's rules: cluster-wide, and in a namespace if one is given."""
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
        """Yield bindings by name, so that the reason is always the same one."""
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
    """Return the subjects by which bindings may refer to a user."""
    return frozenset([("User", user.name), *(("Group", group) for group in user.groups)])


def binding_of(entry: StoredObject) -> RoleBinding:
    """Read a stored binding; one from before bindings were validated may lack any field."""
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
