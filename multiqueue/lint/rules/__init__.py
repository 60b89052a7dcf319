"""All rules, in the order in which findings about one object are told."""

from __future__ import annotations

from multiqueue.lint.rule import Rule
from multiqueue.lint.rules import (
    checks,
    flavors,
    jobs,
    pods,
    preemption,
    profiles,
    queues,
    quota,
    validity,
    wishes,
    workers,
)
from multiqueue.lint.world import Lookup, World

LOCAL_RULES: tuple[Rule[Lookup], ...] = (
    *validity.LOCAL,
    *flavors.LOCAL,
    *queues.LOCAL,
    *quota.LOCAL,
    *checks.LOCAL,
    *jobs.LOCAL,
    *pods.LOCAL,
    *wishes.LOCAL,
    *profiles.LOCAL,
)
"""Rules that need only an object and what it names."""
RULES: tuple[Rule[World], ...] = (
    *LOCAL_RULES,
    *flavors.WORLD,
    *quota.WORLD,
    *preemption.WORLD,
    *checks.WORLD,
    *pods.WORLD,
    *workers.WORLD,
)
