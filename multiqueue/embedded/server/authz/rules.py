"""Rules of roles: what they allow, and whether they cover others.

Parity: kubernetes pkg/apis/rbac/v1 evaluation_helpers.go and component-helpers
auth/rbac/validation policy_comparator.go @v1.36.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from multiqueue.embedded.server.authz.attributes import Attributes
from multiqueue.embedded.server.causes import show

ALL = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """One PolicyRule: verbs on resources (of groups, perhaps by name), or on paths."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Empty: any."""
    paths: tuple[str, ...] = ()

    def applies_to(self, wish: Attributes) -> bool:
        """Whether the rule speaks of the wish, whatever the name of the object."""
        if not (ALL in self.verbs or wish.verb in self.verbs):
            return False
        if wish.path:
            return any(_covers_path(path, wish.path) for path in self.paths)
        if not (ALL in self.groups or wish.group in self.groups):
            return False
        return (
            ALL in self.resources
            or wish.combined in self.resources
            or (wish.subresource != "" and f"*/{wish.subresource}" in self.resources)
        )

    def allows(self, wish: Attributes) -> bool:
        """Whether the rule grants the wish."""
        return self.applies_to(wish) and (
            wish.path != "" or not self.names or wish.name in self.names
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

    def __str__(self) -> str:
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.paths),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return f"{{{', '.join(f'{name}:{quoted(values)}' for name, values in parts if values)}}}"


def parse_rules(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(
        Rule(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            paths=tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in role.get("rules") or ()
    )


def find_missing(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The smallest parts of the wanted rules that no held rule covers alone."""
    parts = dict.fromkeys(part for rule in wanted for part in _parts(rule))
    return [part for part in parts if not any(_covers(rule, part) for rule in held)]


def describe(rules: Iterable[Rule]) -> str:
    """Rules one a line, sorted; verbs on the same thing share a line."""
    verbs: dict[Rule, list[str]] = defaultdict(list)
    lines = set()
    for rule in rules:
        if rule.paths:
            lines.add(str(rule))
        else:
            key = Rule(groups=rule.groups, resources=rule.resources, names=rule.names)
            verbs[key] += [verb for verb in rule.verbs if verb not in verbs[key]]
    for key, granted in verbs.items():
        lines.add(str(Rule(tuple(granted), key.groups, key.resources, key.names)))
    return "\n".join(sorted(lines))


def quoted(values: Iterable[str]) -> str:
    """A list as Go prints it with quotes: ``["a" "b"]``."""
    return f"[{' '.join(map(show, values))}]"


def _parts(rule: Rule) -> Iterable[Rule]:
    for group, resource, verb in product(rule.groups, rule.resources, rule.verbs):
        if rule.names:
            for name in rule.names:
                yield Rule((verb,), (group,), (resource,), (name,))
        else:
            yield Rule((verb,), (group,), (resource,))
    for path, verb in product(rule.paths, rule.verbs):
        yield Rule((verb,), paths=(path,))


def _covers(rule: Rule, part: Rule) -> bool:
    """Whether a rule grants a part, which has one verb on one thing."""
    if not _has(rule.verbs, part.verbs[0]):
        return False
    if part.paths:
        return any(_covers_path(path, part.paths[0]) for path in rule.paths)
    resource = part.resources[0]
    _, slash, subresource = resource.partition("/")
    return (
        _has(rule.groups, part.groups[0])
        and (
            _has(rule.resources, resource) or (slash != "" and f"*/{subresource}" in rule.resources)
        )
        and (not rule.names or (part.names != () and part.names[0] in rule.names))
    )


def _has(values: Sequence[str], value: str) -> bool:
    return ALL in values or value in values


def _covers_path(pattern: str, path: str) -> bool:
    if pattern.endswith(ALL):
        return path.startswith(pattern.rstrip(ALL))
    return pattern == path
