"""``x-kubernetes-validations``: from the schema of a version to rules that can be evaluated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson

from multiqueue.embedded.server.causes import FieldCause, forbidden, invalid
from multiqueue.embedded.server.cel.declarations import Declarations, is_embedded
from multiqueue.embedded.server.cel.field_path import parse_field_path
from multiqueue.embedded.server.cel.paths import Reads
from multiqueue.embedded.server.cel.rule_shape import KEYWORD as RULES
from multiqueue.embedded.server.cel.rule_shape import has_rules, shape_causes
from multiqueue.embedded.server.cel.values import Convert, compile_values
from multiqueue.lib.cel.environment import check_environment
from multiqueue.lib.cel.expression import (
    CelBinding,
    Checked,
    CheckError,
    Program,
    check,
    program,
)

Schema = Mapping[str, Any]

SELF, OLD_SELF, OLD_SELVES = "self", "oldSelf", "oldSelves"
SCHEMA_PATH = "<schema>"
"""In messages, in place of the path of the schema: the same schema may stand in several places."""
_OTHER_RESULT = {
    "BOOL": "cel expression must evaluate to a bool",
    "STRING": "must evaluate to a string",
}
_OPTIONAL_OLD_SELF = CelBinding(OLD_SELF, f"{OLD_SELVES}[?0]")
"""Made of a list with at most one item."""
_COMBINATIONS = ("allOf", "anyOf", "oneOf")
_NO_RULES = "must not be set inside of allOf, anyOf, oneOf and not: this server has no rules there"

PassedKey = tuple[bool, bool, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class CelRule:
    """One rule."""

    text: str
    message: str
    reason: str
    field_path: str
    """The field that failures name, relative to the place of the rule; "" for the place itself."""
    program: Program
    message_program: Program | None
    uses_old_self: bool
    optional_old_self: bool


@dataclass(slots=True, kw_only=True)
class CelScope:
    """A place in a schema with rules there or below."""

    schema: Schema
    rules: tuple[CelRule, ...] = ()
    convert: Convert = lambda value: value
    """From a value to what the rules see of it."""
    convert_old: Convert = lambda value: value
    properties: dict[str, "CelScope"] = field(default_factory=dict)
    values: "CelScope | None" = None
    """Of additionalProperties."""
    items: "CelScope | None" = None
    has_transitions: bool = False
    """Whether a rule here or below compares with the old object."""
    passed: dict[PassedKey, None] = field(default_factory=dict)
    """What the rules here were content with lately."""

    def below(self) -> Iterator["CelScope"]:
        """The places right below."""
        yield from self.properties.values()
        yield from (scope for scope in (self.values, self.items) if scope is not None)


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """The rules of a version, and what is wrong with them."""

    root: CelScope | None
    """None: there are no rules, or not all can be used."""
    causes: tuple[FieldCause, ...]
    """Paths are relative to the schema."""


_compiled: dict[bytes, CompiledRules] = {}
_MAX_COMPILED = 256


def compile_rules(schema: Schema) -> CompiledRules:
    """Compile the rules of a schema, once for all definitions that have the same."""
    key = orjson.dumps(schema)
    found = _compiled.pop(key, None) or _Compiler().compile(schema)
    _compiled[key] = found
    while len(_compiled) > _MAX_COMPILED:
        del _compiled[next(iter(_compiled))]
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the schema the compiler is."""

    path: str
    is_root: bool = False
    uncorrelated: str = ""
    """The list that has no keys, and contains this; in it nothing has an old value."""


class _Compiler:
    def __init__(self) -> None:
        self._declarations = Declarations()
        self._causes: list[FieldCause] = []

    def compile(self, schema: Schema) -> CompiledRules:
        places = list(_places(schema, _Place("", is_root=True)))
        for sub, place in places:
            self._causes += _combined(sub, place.path)
            for index, rule in enumerate(sub.get(RULES, ())):
                self._causes += shape_causes(rule, f"{place.path}.{RULES}[{index}]", sub)
        if self._causes:
            return CompiledRules(None, tuple(self._causes))
        for sub, place in places:
            if RULES in sub:
                self._declarations.declare(sub, is_object_root=place.is_root)
        self._pool = self._declarations.pool()
        root = self._scope(schema, _Place("", is_root=True))
        return CompiledRules(None if self._causes else root, tuple(self._causes))

    def _scope(self, schema: Schema, place: _Place) -> CelScope | None:
        scope = CelScope(schema=schema)
        if schema.get(RULES):
            self._add_rules(scope, place)
        for sub, inner, where in _inner(schema, place):
            below = self._scope(sub, inner)
            if below is None:
                continue
            if where == "items":
                scope.items = below
            elif where == "additionalProperties":
                scope.values = below
            else:
                scope.properties[where.removeprefix(".")] = below
        if not scope.rules and not any(True for _ in scope.below()):
            return None
        scope.has_transitions = any(rule.uses_old_self for rule in scope.rules) or any(
            below.has_transitions for below in scope.below()
        )
        return scope

    def _add_rules(self, scope: CelScope, place: _Place) -> None:
        type_ = self._declarations.declare(scope.schema, is_object_root=place.is_root)
        environments = cache(lambda optional: self._environment(type_ or "dyn", optional=optional))
        reads = Reads()
        rules = []
        for index, entry in enumerate(scope.schema[RULES]):
            path = f"{place.path}.{RULES}[{index}]"
            if type_ is None:
                text = "rules are not possible here: expressions do not see values of this schema"
                self._causes.append(invalid(f"{path}.rule", entry["rule"], text))
                continue
            optional = entry.get("optionalOldSelf") is True
            rule = self._rule(
                entry, scope.schema, place, reads, environment=environments(optional), path=path
            )
            if rule is not None:
                rules.append(rule)
        scope.rules = tuple(rules)
        embedded = place.is_root or is_embedded(scope.schema)
        scope.convert = compile_values(scope.schema, reads.mask(SELF), is_object_root=embedded)
        scope.convert_old = compile_values(
            scope.schema, reads.mask(OLD_SELF), is_object_root=embedded
        )

    def _environment(self, type_: str, *, optional: bool) -> Any:
        old = (OLD_SELVES, f"list<{type_}>") if optional else (OLD_SELF, type_)
        return check_environment(dict([(SELF, type_), old]), self._pool, bindings=optional)

    def _rule(
        self,
        entry: Mapping[str, Any],
        schema: Schema,
        place: _Place,
        reads: Reads,
        *,
        environment: Any,
        path: str,
    ) -> CelRule | None:
        optional = entry.get("optionalOldSelf") is True
        binding = _OPTIONAL_OLD_SELF if optional else None
        rule, message = entry["rule"], entry.get("messageExpression", "")
        found: list[FieldCause] = []
        checked = message_checked = None
        try:
            checked = _checked(environment, rule, binding, "BOOL")
        except CheckError as error:
            found.append(invalid(f"{path}.rule", entry, str(error)))
        if checked is not None and message:
            try:
                message_checked = _checked(environment, message, binding, "STRING")
            except CheckError as error:
                found.append(
                    invalid(f"{path}.messageExpression", entry, f"messageExpression {error}")
                )
        if checked is not None:
            found += _old_self_causes(checked, entry, path, place)
        self._causes += found
        if found or checked is None:
            return None
        for tree in (checked, message_checked):
            if tree is not None:
                reads.add(tree.tree, {SELF: (SELF,), OLD_SELF: (OLD_SELF,)})
        return CelRule(
            text=rule.strip(),
            message=entry.get("message", "").strip(),
            reason=entry.get("reason") or "FieldValueInvalid",
            field_path=parse_field_path(entry.get("fieldPath", ""), schema) or "",
            program=_program(rule, binding),
            message_program=_program(message, binding) if message else None,
            uses_old_self=checked.uses(OLD_SELF),
            optional_old_self=optional,
        )


def _checked(environment: Any, text: str, binding: CelBinding | None, result: str) -> Checked:
    try:
        checked = check(environment, text, binding)
    except CheckError as error:
        raise CheckError(f"compilation failed: {error}") from error
    if checked.result != result:
        raise CheckError(_OTHER_RESULT[result])
    return checked


def _program(text: str, binding: CelBinding | None) -> Program:
    return program(text if binding is None else binding.around(text))


def _old_self_causes(
    checked: Checked, entry: Mapping[str, Any], path: str, place: _Place
) -> list[FieldCause]:
    if not checked.uses(OLD_SELF):
        if entry.get("optionalOldSelf") is None:
            return []
        text = "may not be set if oldSelf is not used in rule"
        return [invalid(f"{path}.optionalOldSelf", entry["optionalOldSelf"], text)]
    if not place.uncorrelated:
        return []
    text = (
        "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        f"{SCHEMA_PATH}{place.uncorrelated}"
    )
    return [invalid(f"{path}.rule", entry["rule"], text)]


def _places(schema: Schema, place: _Place) -> Iterator[tuple[Schema, _Place]]:
    yield schema, place
    for sub, inner, _ in _inner(schema, place):
        yield from _places(sub, inner)


def _inner(schema: Schema, place: _Place) -> Iterator[tuple[Schema, _Place, str]]:
    """Schemas right below, with their places and ``items``, ``additionalProperties`` or .NAME."""
    path = place.path
    for name, sub in schema.get("properties", {}).items():
        yield sub, _Place(f"{path}.properties[{name}]", uncorrelated=place.uncorrelated), f".{name}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        inner = _Place(f"{path}.additionalProperties", uncorrelated=place.uncorrelated)
        yield schema["additionalProperties"], inner, "additionalProperties"
    if isinstance(schema.get("items"), Mapping):
        uncorrelated = place.uncorrelated
        if not uncorrelated and schema.get("x-kubernetes-list-type") != "map":
            uncorrelated = path
        yield schema["items"], _Place(f"{path}.items", uncorrelated=uncorrelated), "items"


def _combined(schema: Schema, path: str) -> list[FieldCause]:
    found = [
        forbidden(f"{path}.{keyword}", _NO_RULES)
        for keyword in _COMBINATIONS
        if has_rules(schema.get(keyword))
    ]
    return found + ([forbidden(f"{path}.not", _NO_RULES)] if has_rules(schema.get("not")) else [])
