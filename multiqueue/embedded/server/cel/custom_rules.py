"""The ``x-kubernetes-validations`` of custom kinds. CEL is loaded when a kind first needs it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from multiqueue.embedded.server.causes import (
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    FieldCause,
    invalid,
)
from multiqueue.embedded.server.cel.rule_shape import has_rules
from multiqueue.embedded.server.kinds import KindVersion

if TYPE_CHECKING:
    from multiqueue.embedded.server.cel.rules import CompiledRules

_BLOCKING = {NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID}
"""After these the rules could meet values that their types exclude."""


def rule_causes(
    version: KindVersion,
    obj: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    schema_causes: Iterable[FieldCause],
) -> list[FieldCause]:
    """What the rules say about an object; ``old`` is its state before an update.

    Args:
        version: the version that the objects are written in.
        obj: pruned and defaulted.
        old: None for a new object.
        schema_causes: what is wrong by the schema; some errors keep the rules from being asked.
    """
    compiled = _rules(version)
    if compiled is None:
        return []
    if any(cause.reason in _BLOCKING for cause in schema_causes):
        text = (
            "some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        )
        return [invalid("<nil>", None, text)]
    if compiled.root is None:
        return [invalid("<nil>", None, f"rule compile error: {each}") for each in compiled.causes]
    from multiqueue.embedded.server.cel.evaluate import ABSENT, evaluate

    return evaluate(compiled.root, obj, ABSENT if old is None else old)


def definition_causes(schema: Mapping[str, Any], path: str) -> list[FieldCause]:
    """What keeps the rules of a schema from being used; ``path`` is that of the schema."""
    if not has_rules(schema):
        return []
    from multiqueue.embedded.server.cel.rules import SCHEMA_PATH, compile_rules

    return [
        FieldCause(cause.reason, f"{path}{cause.field}", cause.message.replace(SCHEMA_PATH, path))
        for cause in compile_rules(schema).causes
    ]


_compiled: WeakKeyDictionary[KindVersion, "CompiledRules | None"] = WeakKeyDictionary()


def _rules(version: KindVersion) -> "CompiledRules | None":
    """The compiled rules; None: there are none."""
    if version in _compiled:
        return _compiled[version]
    found = None
    if has_rules(version.schema):
        from multiqueue.embedded.server.cel.rules import compile_rules

        found = compile_rules(version.schema)
        if found.root is None and not found.causes:
            found = None
    _compiled[version] = found
    return found
