"""A manager's rights on a worker: the manifests of config/worker-role, right by right.

The copy beside this file is packaged with the program. ``make roles`` updates it, and a test
compares the two.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ACCOUNT, ACCOUNT_NAMESPACE = "multikueue-manager", "kueue-system"
"""The ServiceAccount of a manager on a worker."""
_FILE = Path(__file__).with_name("worker_role.yaml")


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one kind; ``name`` if it is for one object only."""

    group: str
    resource: str
    verb: str
    subresource: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        what = f"{what}.{self.group}" if self.group else what
        return f'{self.verb} {what} "{self.name}"' if self.name else f"{self.verb} {what}"


@functools.cache
def load_worker_role() -> tuple[dict[str, Any], ...]:
    """Return the manifests: namespace, account, Secret of a long-lived token, role and binding."""
    return tuple(yaml.safe_load_all(_FILE.read_text()))


def list_rights() -> tuple[Right, ...]:
    """Return every right of the roles, sorted: one for each call that a manager makes."""
    return tuple(sorted(set(_rights())))


def _rights() -> Iterator[Right]:
    for role in load_worker_role():
        if role["kind"].endswith("Role"):
            yield from rights_in(role["rules"])


def rights_in(rules: Iterable[Mapping[str, Any]]) -> Iterator[Right]:
    """Yield the rights that rules of a role give."""
    for rule in rules:
        for group in rule.get("apiGroups", ()):
            for combined in rule["resources"]:
                resource, _, subresource = combined.partition("/")
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(group, resource, verb, subresource, name)


def grants(rule: Mapping[str, Any], right: Right) -> bool:
    """Return whether a rule gives a right. Parity: rbac/v1 evaluation_helpers.go."""
    combined = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    resources = {"*", combined, *([f"*/{right.subresource}"] if right.subresource else [])}
    names = rule.get("resourceNames") or ()
    return (
        not {"*", right.group}.isdisjoint(rule.get("apiGroups") or ())
        and not {"*", right.verb}.isdisjoint(rule.get("verbs") or ())
        and not resources.isdisjoint(rule.get("resources") or ())
        and (not names or bool(right.name and right.name in names))
    )
