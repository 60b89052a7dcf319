"""Rules of roles: what they allow.

Parity: kubernetes pkg/apis/rbac/v1 evaluation_helpers.go @v1.36.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.embedded.server.authz.attributes import Attributes
from multiqueue.embedded.server.causes import show

ALL = "*"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One PolicyRule: verbs on resources (of groups, perhaps by name), or on paths."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Names of objects; empty: any name."""
    paths: tuple[str, ...] = ()

    def applies_to(self, wanted: Attributes) -> bool:
        """Whether the rule allows the request."""
        if not (ALL in self.verbs or wanted.verb in self.verbs):
            return False
        if wanted.path:
            return any(_covers_path(path, wanted.path) for path in self.paths)
        if not (ALL in self.groups or wanted.group in self.groups):
            return False
        if self.names and wanted.name not in self.names:
            return False
        return (
            ALL in self.resources
            or wanted.combined in self.resources
            or (wanted.subresource != "" and f"*/{wanted.subresource}" in self.resources)
        )

    def as_dict(self) -> dict[str, list[str]]:
        """The shape of a PolicyRule."""
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {name: list(values) for name, values in fields.items() if values}


def parse_rules(role: Mapping[str, Any]) -> tuple[PolicyRule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(
        PolicyRule(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            paths=tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in role.get("rules") or ()
    )


def quoted(values: Iterable[str]) -> str:
    """A list as Go prints it with quotes: ``["a" "b"]``."""
    return f"[{' '.join(map(show, values))}]"


def _covers_path(pattern: str, path: str) -> bool:
    if pattern.endswith(ALL):
        return path.startswith(pattern.rstrip(ALL))
    return pattern == path
