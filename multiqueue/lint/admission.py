"""The same rules at admission: what can be judged from one object and what it names."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from multiqueue.api.validation.access import Object
from multiqueue.lint.finding import Severity
from multiqueue.lint.rule import Hit, Rule
from multiqueue.lint.rules import LOCAL_RULES
from multiqueue.lint.world import Lookup

_AT_ADMISSION = tuple(rule for rule in LOCAL_RULES if rule.at_admission)


def warn(obj: Object, lookup: Lookup, known_paths: AbstractSet[str] = frozenset()) -> list[str]:
    """Return admission warnings about one object (in v1beta2, if it is ours).

    Only what is hardly meant; what may well be is for those who ask the linter. Fields of which
    the author is warned already are left out. Cost: a few look-ups by name, whatever exists.
    """
    return [
        _sentence(rule, hit)
        for rule in _AT_ADMISSION
        if obj.get("kind") in rule.kinds
        for hit in rule.check(obj, lookup)
        if (hit.severity or rule.severity) is not Severity.INFO and hit.path not in known_paths
    ]


def _sentence(rule: Rule[Lookup], hit: Hit) -> str:
    where = f"{hit.path}: " if hit.path else ""
    return f"[{rule.id}] {where}{hit.what}; {hit.todo}"
