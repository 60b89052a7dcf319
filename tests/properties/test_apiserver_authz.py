"""The compiled authorizer agrees with a walk over all bindings and rules, whatever they are."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.embedded.server.auth import ApiUser, service_account
from multiqueue.embedded.server.authz.attributes import Attributes
from multiqueue.embedded.server.authz.authorizer import RoleAuthorizer
from multiqueue.embedded.server.authz.policy import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
)
from multiqueue.embedded.server.storage.memory import MemoryStorage
from multiqueue.embedded.server.store import ObjectStore

Json = dict[str, Any]

NAMES = st.sampled_from(["a", "b"])
NAMESPACES = st.sampled_from(["n", "m"])
VERBS = st.sampled_from(["get", "list", "*"])
RESOURCES = st.sampled_from(["pods", "pods/log", "*/log", "jobs", "*"])
PATHS = st.sampled_from(["/a", "/a/*", "/b", "*"])
USERS = [
    ApiUser("jane", ("dev", "ops")),
    ApiUser("joe"),
    service_account("n", "robot"),
    ApiUser("root", ("system:masters",)),
]


def some(values: st.SearchStrategy[str], *, least: int = 1) -> st.SearchStrategy[list[str]]:
    return st.lists(values, min_size=least, max_size=2, unique=True)


RULES = st.one_of(
    st.fixed_dictionaries(
        {"verbs": some(VERBS), "apiGroups": some(st.sampled_from(["", "g", "*"])),
         "resources": some(RESOURCES), "resourceNames": some(NAMES, least=0)}
    ),
    st.fixed_dictionaries({"verbs": some(VERBS), "nonResourceURLs": some(PATHS)}),
)  # fmt: skip
SUBJECTS = st.sampled_from(
    [
        {"kind": "User", "name": "jane"},
        {"kind": "User", "name": "system:serviceaccount:n:robot"},
        {"kind": "Group", "name": "dev"},
        {"kind": "Group", "name": "system:serviceaccounts"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "n"},
        {"kind": "ServiceAccount", "name": "robot"},
    ]
)
ROLE_NAMES = st.sampled_from(["r", "s"])


def roles(key: Any, namespaces: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    rules = st.lists(RULES, min_size=1, max_size=3)
    return st.tuples(st.just(key), namespaces, ROLE_NAMES, rules)


def bindings(key: Any, namespaces: st.SearchStrategy[str], *kinds: str) -> st.SearchStrategy[Any]:
    content = st.tuples(
        st.sampled_from(kinds), ROLE_NAMES, st.lists(SUBJECTS, min_size=1, max_size=3)
    )
    return st.tuples(st.just(key), namespaces, NAMES, content)


NOWHERE = st.just("")
ROLE = st.one_of(roles(CLUSTER_ROLES, NOWHERE), roles(ROLES, NAMESPACES))
BINDING = st.one_of(
    bindings(CLUSTER_ROLE_BINDINGS, NOWHERE, "ClusterRole"),
    bindings(ROLE_BINDINGS, NAMESPACES, "Role", "ClusterRole"),
)
GONE = st.one_of(
    st.tuples(st.just(CLUSTER_ROLES), NOWHERE, ROLE_NAMES, st.none()),
    st.tuples(st.just(ROLES), NAMESPACES, ROLE_NAMES, st.none()),
    st.tuples(st.just(CLUSTER_ROLE_BINDINGS), NOWHERE, NAMES, st.none()),
    st.tuples(st.just(ROLE_BINDINGS), NAMESPACES, NAMES, st.none()),
)
STEPS = st.builds(
    lambda first, second, rest: [*first, *second, *rest],
    st.lists(ROLE, min_size=3, max_size=5),
    st.lists(BINDING, min_size=3, max_size=5),
    st.lists(st.one_of(ROLE, BINDING, GONE, GONE), max_size=6),
)
"""Changes one after the other: first there are some roles and bindings."""
WISHES = st.lists(
    st.one_of(
        st.builds(
            Attributes,
            st.sampled_from(["get", "list"]),
            st.sampled_from(["", "g"]),
            st.sampled_from(["pods", "jobs"]),
            st.sampled_from(["", "log"]),
            st.sampled_from(["", "n", "m"]),
            st.sampled_from(["", "a", "b"]),
        ),
        st.builds(
            lambda verb, path: Attributes(verb, path=path),
            st.sampled_from(["get", "post"]),
            st.sampled_from(["/a", "/a/b", "/b", "/c"]),
        ),
    ),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(steps=STEPS, wishes=WISHES, user=st.sampled_from(USERS))
def test_it_agrees_with_a_walk(steps: list[Any], wishes: list[Attributes], user: ApiUser) -> None:
    store = ObjectStore(MemoryStorage(), history_length=1)
    authorizer = RoleAuthorizer()
    authorizer.load(store)
    for key, namespace, name, content in steps:
        change(store, key, namespace, name, content)
        for wish in wishes:
            assert authorizer.decide(user, wish).allowed is walk(store, user, wish)


@settings(deadline=None)
@given(steps=STEPS, user=st.sampled_from(USERS))
def test_what_is_loaded_is_what_was_followed(steps: list[Any], user: ApiUser) -> None:
    store = ObjectStore(MemoryStorage(), history_length=1)
    followed, loaded = RoleAuthorizer(), RoleAuthorizer()
    followed.load(store)
    for step in steps:
        change(store, *step)
    loaded.load(store)
    for namespace in ("", "n", "m"):
        assert followed.grants(user, namespace) == loaded.grants(user, namespace)


def change(store: ObjectStore, key: Any, namespace: str, name: str, content: Any) -> None:
    entry = store.get(key, namespace, name)
    metadata = {"name": name, "uid": f"{key[1]}/{namespace}/{name}"}
    head = {"apiVersion": f"{key[0]}/v1", "kind": key[1], "metadata": metadata}
    if namespace:
        metadata["namespace"] = namespace
    if content is None:
        if entry is not None:
            store.remove(entry)
    elif key in (ROLES, CLUSTER_ROLES):
        store.put(key, {**head, "rules": content})
    else:
        kind, role, subjects = content
        store.put(
            key,
            {
                **head,
                "roleRef": {"kind": kind, "name": role},
                "subjects": subjects,
            },
        )


# ------------------------------------------------------------------ the slow and simple way


def walk(store: ObjectStore, user: ApiUser, wish: Attributes) -> bool:
    if "system:masters" in user.groups:
        return True
    scopes = [("", CLUSTER_ROLE_BINDINGS)]
    if wish.namespace:
        scopes.append((wish.namespace, ROLE_BINDINGS))
    for namespace, key in scopes:
        for entry in store.collection(key).entries(namespace):
            binding = entry.decode()
            if any(means(subject, user, namespace) for subject in binding["subjects"]):
                for rule in rules_of(store, binding["roleRef"], namespace):
                    if grants(rule, wish):
                        return True
    return False


def means(subject: Json, user: ApiUser, namespace: str) -> bool:
    if subject["kind"] == "User":
        return bool(user.name == subject["name"])
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    where = subject.get("namespace") or namespace
    return bool(where) and user.name == f"system:serviceaccount:{where}:{subject['name']}"


def rules_of(store: ObjectStore, reference: Json, namespace: str) -> Iterator[Json]:
    if reference["kind"] == "Role":
        entry = store.get(ROLES, namespace, reference["name"])
    else:
        entry = store.get(CLUSTER_ROLES, "", reference["name"])
    if entry is not None:
        yield from entry.decode()["rules"]


def grants(rule: Json, wish: Attributes) -> bool:
    if "*" not in rule["verbs"] and wish.verb not in rule["verbs"]:
        return False
    if wish.path:
        for url in rule.get("nonResourceURLs", []):
            if url == wish.path or (url.endswith("*") and wish.path.startswith(url[:-1])):
                return True
        return False
    if not {"*", wish.group} & set(rule.get("apiGroups", [])):
        return False
    wanted = {"*", f"{wish.resource}/{wish.subresource}" if wish.subresource else wish.resource}
    if wish.subresource:
        wanted.add(f"*/{wish.subresource}")
    if not wanted & set(rule.get("resources", [])):
        return False
    names = rule.get("resourceNames", [])
    return not names or wish.name in names
