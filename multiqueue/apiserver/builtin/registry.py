"""The kinds that every API server serves from the start."""

from multiqueue.apiserver.kinds import Kind, Registry


def builtin_kinds() -> list[Kind]:
    """All built-in kinds."""
    return []


def builtin_registry() -> Registry:
    """A new registry with all built-in kinds."""
    registry = Registry()
    for kind in builtin_kinds():
        registry.add(kind)
    return registry
