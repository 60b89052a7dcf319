"""The linter's rules at admission, for one object and the objects that it names."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from multiqueue.api.validation.access import Object
from multiqueue.lint.catalogue import LOCAL_RULES
from multiqueue.lint.finding import Severity
from multiqueue.lint.rule import Hit, LintRule
from multiqueue.lint.world import Lookup

_AT_ADMISSION = tuple(
    rule for rule in LOCAL_RULES if rule.at_admission and rule.severity is not Severity.INFO
)


def warn(obj: Object, lookup: Lookup, known_paths: AbstractSet[str] = frozenset()) -> list[str]:
    """Return admission warnings about one object (in v1beta2, if it is of our kinds).

    Only likely mistakes are reported; what may be intended is left to the `lint` command. Fields
    with a warning already are left out. Cost: a few look-ups by name, however many objects exist.
    """
    once = _Once(lookup)
    return [
        _sentence(rule, hit)
        for rule in _AT_ADMISSION
        if obj.get("kind") in rule.kinds
        for hit in rule.check(obj, once)
        if (hit.severity or rule.severity) is not Severity.INFO and hit.path not in known_paths
    ]


class _Once:
    """Caches look-ups, since several rules ask for the same queue."""

    def __init__(self, lookup: Lookup) -> None:
        self.config = lookup.config
        self.sight = lookup.sight
        self._get = lookup.get
        self._known: dict[tuple[str, str, str], Object | None] = {}

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        key = (kind, name, namespace)
        if key not in self._known:
            self._known[key] = self._get(kind, name, namespace)
        return self._known[key]


def _sentence(rule: LintRule[Lookup], hit: Hit) -> str:
    where = f"{hit.path}: " if hit.path else ""
    return f"[{rule.id}] {where}{hit.what}; {hit.todo}"
