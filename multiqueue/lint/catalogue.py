"""All rules, in the order in which findings about one object are reported."""

from __future__ import annotations

from multiqueue.lint.rule import LintRule
from multiqueue.lint.rules import (
    accelerators,
    checks,
    declared,
    flavors,
    jobs,
    pods,
    preemption,
    profiles,
    queues,
    quota,
    validity,
    workers,
)
from multiqueue.lint.rules import cluster_constraints as constraints
from multiqueue.lint.world import LintInput, Lookup

LOCAL_RULES: tuple[LintRule[Lookup], ...] = (
    *validity.LOCAL,
    *flavors.LOCAL,
    *queues.LOCAL,
    *quota.LOCAL,
    *checks.LOCAL,
    *jobs.LOCAL,
    *pods.LOCAL,
    *constraints.LOCAL,
    *profiles.LOCAL,
    *declared.LOCAL,
    *accelerators.LOCAL,
)
"""Rules that need only an object and the objects that it names."""
RULES: tuple[LintRule[LintInput], ...] = (
    *LOCAL_RULES,
    *flavors.WORLD,
    *quota.WORLD,
    *preemption.WORLD,
    *checks.WORLD,
    *pods.WORLD,
    *workers.WORLD,
    *accelerators.WORLD,
)
