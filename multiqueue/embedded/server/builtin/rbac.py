"""rbac.authorization.k8s.io/v1: what roles and bindings must look like."""

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.embedded.server.authz.policy import GROUP
from multiqueue.embedded.server.builtin.pod_defaults import child
from multiqueue.embedded.server.causes import FieldCause, invalid, not_supported, required
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names
from multiqueue.lib.selectors import SelectorError, label_selector_from

Json = Mapping[str, Any]

SUBJECTS = ("ServiceAccount", "User", "Group")


def _default_binding(binding: JsonObject) -> None:
    """The group of the role and of those who are not ServiceAccounts."""
    reference = child(binding, "roleRef")
    reference["apiGroup"] = reference.get("apiGroup") or GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
            subject["apiGroup"] = GROUP


def _rule_causes(role: Json) -> list[FieldCause]:
    namespaced = bool(role["metadata"].get("namespace"))
    return [
        cause
        for index, rule in enumerate(role.get("rules") or ())
        for cause in _one_rule_causes(rule, f"rules[{index}]", namespaced=namespaced)
    ]


def _one_rule_causes(rule: Json, path: str, *, namespaced: bool) -> list[FieldCause]:
    causes = []
    if not rule.get("verbs"):
        causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    where, paths = f"{path}.nonResourceURLs", rule.get("nonResourceURLs")
    if paths:
        if namespaced:
            causes.append(
                invalid(where, paths, "namespaced rules cannot apply to non-resource URLs")
            )
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(invalid(where, paths, text))
        return causes
    for field, what in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(field):
            text = f"resource rules must supply at least one {what}"
            causes.append(required(f"{path}.{field}", text))
    return causes


def _aggregation_causes(role: Json) -> list[FieldCause]:
    rule = role.get("aggregationRule")
    if rule is None:
        return []
    path = "aggregationRule.clusterRoleSelectors"
    selectors = rule.get("clusterRoleSelectors")
    if not selectors:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        return [required(path, text)]
    return [
        cause
        for index, selector in enumerate(selectors)
        for cause in _selector_causes(selector, f"{path}[{index}]")
    ]


def _selector_causes(selector: Json, path: str) -> list[FieldCause]:
    try:
        label_selector_from(selector)
    except SelectorError as error:
        return [invalid(path, selector, str(error))]
    return []


def _binding_causes(binding: Json) -> list[FieldCause]:
    namespaced = bool(binding["metadata"].get("namespace"))
    reference = binding["roleRef"]
    causes = _supported("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    causes += _supported("roleRef.kind", reference.get("kind", ""), kinds)
    if not reference.get("name"):
        causes.append(required("roleRef.name"))
    else:
        causes += check_name(reference["name"], "roleRef.name", names.segment)
    for index, subject in enumerate(binding.get("subjects") or ()):
        causes += _subject_causes(subject, f"subjects[{index}]", namespaced=namespaced)
    return causes


def _subject_causes(subject: Json, path: str, *, namespaced: bool) -> list[FieldCause]:
    name, kind, group = (subject.get(field, "") for field in ("name", "kind", "apiGroup"))
    causes = [] if name else [required(f"{path}.name")]
    if kind == "ServiceAccount":
        if name:
            causes += check_name(name, f"{path}.name", names.subdomain)
        causes += _supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            causes.append(required(f"{path}.namespace"))
    elif kind in SUBJECTS:
        causes += _supported(f"{path}.apiGroup", group, (GROUP,))
    else:
        causes.append(not_supported(f"{path}.kind", kind, SUBJECTS))
    return causes


def _supported(path: str, value: str, supported: Sequence[str]) -> list[FieldCause]:
    return [] if value in supported else [not_supported(path, value, supported)]


def _role_causes(role: JsonObject) -> list[FieldCause]:
    return [*_rule_causes(role), *_aggregation_causes(role)]


def _binding_update_causes(
    new: JsonObject, old: Json, _context: RequestContext
) -> list[FieldCause]:
    causes = _binding_causes(new)
    if new["roleRef"] != old["roleRef"]:
        fields = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
        shown = {word: new["roleRef"].get(field, "") for word, field in fields}
        causes.append(invalid("roleRef", shown, "cannot change roleRef"))
    return causes


ROLE_HOOKS = Hooks(
    validate_create=lambda role, _context: _role_causes(role),
    validate_update=lambda role, _old, _context: _role_causes(role),
)
ROLE_BINDING_HOOKS = Hooks(
    default=_default_binding,
    validate_create=lambda binding, _context: _binding_causes(binding),
    validate_update=_binding_update_causes,
)
