"""The roles and bindings that every cluster has, as far as something here needs them.

Roles of controllers, nodes and signers are missing: none of them logs in to this server.
Parity: kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy @v1.36, for the kinds served.
"""

from collections.abc import Iterable
from typing import Any

from multiqueue.embedded.server.auth import (
    AUTHENTICATED,
    MASTERS,
    SERVICE_ACCOUNTS,
    UNAUTHENTICATED,
)
from multiqueue.embedded.server.kinds import JsonObject

AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_HEALTH = ("/healthz", "/livez", "/readyz")
_VERSION = ("/version", "/version/")
_ISSUER = ("/.well-known/openid-configuration", "/openid/v1/jwks")


def _on(verbs: Iterable[str], groups: str, resources: str, names: str = "") -> JsonObject:
    """A rule; groups, resources and names are words, ``core`` is the group without a name."""
    rule: JsonObject = {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "verbs": sorted(verbs),
    }
    return {**rule, "resourceNames": names.split()} if names else rule


def _at(*paths: str, verbs: Iterable[str] = ("get",)) -> JsonObject:
    return {"nonResourceURLs": list(paths), "verbs": list(verbs)}


_VIEW = (
    _on(_READ, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status "
                       "pods pods/log pods/status podtemplates serviceaccounts services "
                       "services/status"),
    _on(_READ, "core", "limitranges namespaces namespaces/status resourcequotas "
                       "resourcequotas/status"),
    _on(_READ, "core events.k8s.io", "events"),
    _on(_READ, "apps", "daemonsets daemonsets/status deployments deployments/scale "
                       "deployments/status replicasets replicasets/scale replicasets/status "
                       "statefulsets statefulsets/scale statefulsets/status"),
    _on(_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    _on(_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
)  # fmt: skip
_EDIT = (
    _on(_READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    _on(["impersonate"], "core", "serviceaccounts"),
    _on(["create"], "core", "pods/eviction serviceaccounts/token"),
    _on(_WRITE, "core", "configmaps events persistentvolumeclaims pods pods/attach pods/exec "
                        "pods/portforward pods/proxy podtemplates secrets serviceaccounts services "
                        "services/proxy"),
    _on(_WRITE, "events.k8s.io", "events"),
    _on(_WRITE, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets "
                        "replicasets/scale statefulsets statefulsets/scale"),
    _on(_WRITE, "batch", "cronjobs jobs"),
    _on(_WRITE, "policy", "poddisruptionbudgets"),
    _on([*_READ, *_WRITE], "coordination.k8s.io", "leases"),
)  # fmt: skip
_ADMIN = (_on([*_READ, *_WRITE], "rbac.authorization.k8s.io", "rolebindings roles"),)
_BASIC = (
    _on(["create"], "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
    _on(["create"], "authentication.k8s.io", "selfsubjectreviews"),
)
_DELEGATOR = (
    _on(["create"], "authentication.k8s.io", "tokenreviews"),
    _on(["create"], "authorization.k8s.io", "subjectaccessreviews"),
)
_DISCOVERY = _at("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH,
                 *_VERSION)  # fmt: skip
_MONITORING = _at("/metrics", "/metrics/slis", *_HEALTH, *(f"{path}/*" for path in _HEALTH))

CLUSTER_ROLES: dict[str, tuple[JsonObject, ...]] = {
    "cluster-admin": (_on("*", "*", "*"), _at("*", verbs="*")),
    "system:aggregate-to-admin": _ADMIN,
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:auth-delegator": _DELEGATOR,
    "system:basic-user": _BASIC,
    "system:discovery": (_DISCOVERY,),
    "system:monitoring": (_MONITORING,),
    "system:public-info-viewer": (_at(*_HEALTH, *_VERSION),),
    "system:service-account-issuer-discovery": (_at(*_ISSUER, *(f"{path}/" for path in _ISSUER)),),
}
AGGREGATED = ("admin", "edit", "view")
"""Aggregated roles: each collects the roles with its label, and the role before collects it."""

CLUSTER_ROLE_BINDINGS = {
    "cluster-admin": (MASTERS,),
    "system:basic-user": (AUTHENTICATED,),
    "system:discovery": (AUTHENTICATED,),
    "system:monitoring": ("system:monitoring",),
    "system:public-info-viewer": (AUTHENTICATED, UNAUTHENTICATED),
    "system:service-account-issuer-discovery": (SERVICE_ACCOUNTS,),
}
"""Role -> the groups that have it; each binding has the name of its role."""

READER = "extension-apiserver-authentication-reader"
READER_RULES = (_on(_READ, "core", "configmaps", "extension-apiserver-authentication"),)
READERS = ("system:kube-controller-manager", "system:kube-scheduler")


def labels_of(role: str) -> dict[str, str]:
    """Labels by which an aggregated role finds this one."""
    if role.startswith("system:aggregate-to-"):
        return {f"{AGGREGATE}{role.removeprefix('system:aggregate-to-')}": "true"}
    if role in AGGREGATED[1:]:
        return {f"{AGGREGATE}{AGGREGATED[AGGREGATED.index(role) - 1]}": "true"}
    return {}


def subject(kind: str, name: str) -> dict[str, Any]:
    """A user or a group as bindings name it."""
    return {"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name}
