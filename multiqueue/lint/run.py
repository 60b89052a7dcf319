"""Runs rules on every object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from multiqueue.api.validation.access import text
from multiqueue.lint.finding import Finding
from multiqueue.lint.rule import Hit, LintRule
from multiqueue.lint.world import LintEntry, LintInput, name_of, namespace_of


def lint(world: LintInput, rules: Sequence[LintRule[LintInput]]) -> list[Finding]:
    """Return what rules find in a cluster and in its workers.

    The most severe come first; then by cluster and object, then in the order of the rules.
    """
    found = [*_lint_one(world, rules, "")]
    for name in sorted(world.workers):
        found.extend(_lint_one(world.workers[name], rules, name))
    return sorted(found, key=lambda f: (f.severity.rank, f.cluster, f.kind, f.namespace, f.name))


def _lint_one(
    world: LintInput, rules: Sequence[LintRule[LintInput]], cluster: str
) -> Iterator[Finding]:
    for rule in rules:
        for kind in rule.all_kinds:
            for entry in world.entries(kind):
                for hit in rule.check(entry.obj, world):
                    yield _finding(rule, entry, hit, cluster)


def _finding(rule: LintRule[Any], entry: LintEntry, hit: Hit, cluster: str) -> Finding:
    return Finding(
        rule=rule.id,
        severity=hit.severity or rule.severity,
        cluster=cluster,
        kind=text(entry.obj.get("kind")),
        namespace=namespace_of(entry.obj),
        name=name_of(entry.obj),
        source=entry.source,
        path=hit.path,
        what=hit.what,
        why=rule.why,
        todo=hit.todo,
    )
