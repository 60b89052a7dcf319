"""Nobody grants what they do not have: roles and bindings are looked at before they are stored.

Parity: kubernetes pkg/registry/rbac/*/policybased @v1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from multiqueue.embedded.server.auth import User
from multiqueue.embedded.server.authz.attributes import Attributes
from multiqueue.embedded.server.authz.authorizer import Authorizer
from multiqueue.embedded.server.authz.policy import GROUP
from multiqueue.embedded.server.authz.rules import (
    ALL,
    Rule,
    describe,
    find_missing,
    parse_rules,
    quoted,
)
from multiqueue.embedded.server.causes import show
from multiqueue.embedded.server.kinds import AdmissionRefused
from multiqueue.embedded.server.status import StatusError

EVERYTHING = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), paths=(ALL,)))

_BY_COLLECTOR = {"ownerReferences", "finalizers", "managedFields", "selfLink"}
_STAMPS = {"resourceVersion", "generation"}


def check_role(
    authorizer: Authorizer, user: User, role: Mapping[str, Any], old: Mapping[str, Any] | None
) -> None:
    """Refuse a role with rules that its author does not have, unless the author may ``escalate``.

    Raises:
        AdmissionRefused: 403.
    """
    if user.is_master or _changes_little(role, old):
        return
    metadata = role["metadata"]
    namespace = metadata.get("namespace", "")
    resource = "roles" if namespace else "clusterroles"
    name = metadata.get("name", "") if old is not None else ""
    escalate = Attributes("escalate", GROUP, resource, "", namespace, name)
    if authorizer.decide(user, escalate).allowed:
        return
    _check_held(authorizer, user, namespace, parse_rules(role))
    if _aggregates(role) or (old is not None and _aggregates(old)):
        held = [grant.rule for grant in authorizer.grants(user, namespace).rules]
        if find_missing(held, EVERYTHING):
            raise AdmissionRefused("must have cluster-admin privileges to use the aggregationRule")


def check_binding(
    authorizer: Authorizer, user: User, binding: Mapping[str, Any], old: Mapping[str, Any] | None
) -> None:
    """Refuse a binding to a role with rules that its author does not have, unless the author may
    ``bind`` that role.

    Raises:
        AdmissionRefused: 403.
        StatusError: 404, the role does not exist, so nobody knows what it will grant.
    """
    if user.is_master or _changes_little(binding, old):
        return
    namespace = binding["metadata"].get("namespace", "")
    reference = binding["roleRef"]
    kind, name = reference.get("kind", ""), reference.get("name", "")
    resource = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
    if resource is None or not name:
        return  # the validation has words for it
    if authorizer.decide(user, Attributes("bind", GROUP, resource, "", namespace, name)).allowed:
        return
    rules = authorizer.policy.rules_of(kind, name, namespace)
    if rules is None:
        plural = "rolebindings" if namespace else "clusterrolebindings"
        details = {"name": name, "group": GROUP, "kind": plural}
        message = f"{plural}.{GROUP} {show(name)} not found"
        raise StatusError(404, "NotFound", message, details=details)
    _check_held(authorizer, user, namespace, rules)


def _check_held(authorizer: Authorizer, user: User, namespace: str, wanted: Sequence[Rule]) -> None:
    grants = authorizer.grants(user, namespace)
    missing = find_missing([grant.rule for grant in grants.rules], wanted)
    if missing:
        raise AdmissionRefused(_words(user, missing, grants.missing))


def _words(user: User, missing: Iterable[Rule], errors: Sequence[str]) -> str:
    text = (
        f"user {show(user.name)} (groups={quoted(user.groups)}) "
        "is attempting to grant RBAC permissions not currently held:\n"
        f"{describe(missing)}"
    )
    return f"{text}; resolution errors: [{', '.join(errors)}]" if errors else text


def _aggregates(role: Mapping[str, Any]) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _changes_little(obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    """Whether only what a garbage collector changes is changed."""
    if old is None:
        return False
    return _rest(obj) == _rest(old)


def _rest(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    ignored = _BY_COLLECTOR | _STAMPS
    kept = {key: value for key, value in obj["metadata"].items() if key not in ignored}
    return {**obj, "metadata": kept}
