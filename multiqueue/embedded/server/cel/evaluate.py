"""Rules on objects: walks an object along the places with rules, beside its old state."""

from collections.abc import Mapping
from typing import Any

import orjson

from multiqueue.embedded.server.causes import (
    DUPLICATE,
    INVALID,
    FieldCause,
    duplicate,
    forbidden,
    invalid,
    required,
)
from multiqueue.embedded.server.cel.rules import (
    OLD_SELF,
    OLD_SELVES,
    SELF,
    CelRule,
    CelScope,
    PassedKey,
)
from multiqueue.embedded.server.schema.structural import item_key
from multiqueue.lib.cel.expression import EvaluationError, activation

MAX_EVALUATIONS = 100_000
"""Of rules per object: about a second. A million numbers with a rule for each are refused."""
MAX_MESSAGE = 5 * 1024
MAX_KEY, MAX_PASSED = 1024, 256
"""Bounds what is remembered per scope, in bytes and entries."""
ABSENT: Any = object()
"""No old value: there is none, or none that corresponds."""
_OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


def evaluate(
    scope: CelScope, obj: Any, old: Any = ABSENT, *, most: int = MAX_EVALUATIONS
) -> list[FieldCause]:
    """What the rules say about an object; ``old`` is its state before an update.

    At most `most` rules are evaluated.

    Parity: a rule without oldSelf on a part that did not change is not asked, so what was stored
    before the rule existed may stay.
    """
    run = _Run(most)
    try:
        run.visit(scope, obj, old, "", is_parent_same=False)
    except _OutOfBudgetError as error:
        run.causes.append(error.cause)
    return run.causes


class _OutOfBudgetError(Exception):
    """No further rules are evaluated."""

    def __init__(self, cause: FieldCause) -> None:
        super().__init__(cause.message)
        self.cause = cause


class _Run:
    def __init__(self, most: int) -> None:
        self.causes: list[FieldCause] = []
        self._left = most

    def visit(
        self, scope: CelScope, value: Any, old: Any, path: str, *, is_parent_same: bool
    ) -> None:
        """Evaluate here and below. ``is_parent_same`` is of the nearest part with an old value."""
        if value is None:
            return
        is_same = is_parent_same if old is ABSENT else value == old
        if is_same and not scope.has_transitions:
            return
        if scope.rules:
            self._evaluate(scope, value, old, path, is_same=is_same)
        if isinstance(value, dict):
            self._visit_object(scope, value, old, path, is_same=is_same)
        elif isinstance(value, list) and scope.items is not None:
            self._visit_list(scope, scope.items, value, old, path, is_same=is_same)

    def _visit_object(
        self, scope: CelScope, value: dict[str, Any], old: Any, path: str, *, is_same: bool
    ) -> None:
        before = old if isinstance(old, dict) else {}
        for name, below in scope.properties.items():
            if name in value:
                inner = f"{path}.{name}" if path else name
                found = before.get(name, ABSENT)
                self.visit(below, value[name], found, inner, is_parent_same=is_same)
        if scope.values is not None:
            for key, item in value.items():
                found = before.get(key, ABSENT)
                self.visit(scope.values, item, found, f"{path}[{key}]", is_parent_same=is_same)

    def _visit_list(
        self,
        scope: CelScope,
        below: CelScope,
        items: list[Any],
        old: Any,
        path: str,
        *,
        is_same: bool,
    ) -> None:
        """Only the items of a list of type map have old values."""
        by_key: dict[str, Any] = {}
        keys = tuple(scope.schema.get("x-kubernetes-list-map-keys", ()))
        if isinstance(old, list) and keys:
            by_key = {item_key(item, keys): item for item in old}
        for index, item in enumerate(items):
            before = by_key.get(item_key(item, keys), ABSENT) if by_key else ABSENT
            self.visit(below, item, before, f"{path}[{index}]", is_parent_same=is_same)

    def _evaluate(self, scope: CelScope, value: Any, old: Any, path: str, *, is_same: bool) -> None:
        has_old = old is not ABSENT and old is not None
        due = [
            rule
            for rule in scope.rules
            if (has_old or rule.optional_old_self if rule.uses_old_self else not is_same)
        ]
        if not due:
            return
        self._left -= len(due)
        if self._left < 0:
            raise _OutOfBudgetError(invalid(path or "<nil>", _type(scope), _OUT_OF_BUDGET))
        try:
            variables = {SELF: scope.convert(value)}
            if scope.has_transitions:
                before = [scope.convert_old(old)] if has_old else []
                variables |= {OLD_SELF: before[0] if before else None, OLD_SELVES: before}
        except ValueError as error:
            self.causes.append(invalid(path or "<nil>", _type(scope), str(error)))
            return
        key = _key(variables, has_old=has_old, is_same=is_same)
        if key is not None and key in scope.passed:
            return
        given = activation(variables)
        known = len(self.causes)
        for rule in due:
            try:
                passed = rule.program.evaluate(given)
            except EvaluationError as error:
                self.causes.append(_failed(scope, rule, path, error))
                continue
            if passed is not True:
                self.causes.append(_refused(scope, rule, value, path, _message(rule, given)))
        if key is not None and len(self.causes) == known:
            _remember(scope, key)


def _key(variables: Mapping[str, Any], *, has_old: bool, is_same: bool) -> PassedKey | None:
    """What the outcome of the rules of a scope depends on; None: too much to remember.

    Expressions are pure and values are cut down to what they read, so most objects of a kind look
    the same to them: an update that moves a message or a time asks nothing twice.
    """
    try:
        text = orjson.dumps(variables)
    except TypeError:  # times and bytes
        return None
    return (has_old, is_same, text) if len(text) <= MAX_KEY else None


def _remember(scope: CelScope, key: PassedKey) -> None:
    scope.passed[key] = None
    if len(scope.passed) > MAX_PASSED:
        del scope.passed[next(iter(scope.passed))]


def _type(scope: CelScope) -> str:
    return str(scope.schema.get("type", ""))


def _failed(scope: CelScope, rule: CelRule, path: str, error: EvaluationError) -> FieldCause:
    name = rule.message or rule.text
    where = path or "<nil>"
    words = str(error)
    if words == "no such overload":
        words = (
            f"'{words}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {name}"
        )
    elif "cost limit" in words:
        raise _OutOfBudgetError(
            invalid(
                where,
                _type(scope),
                f"'{words}': no further validation rules will be run due to call cost exceeds "
                f"limit for rule: {name}",
            )
        )
    else:
        words = f"{words} evaluating rule: {name}"
    return invalid(where, _type(scope), words)


def _message(rule: CelRule, given: Any) -> str:
    """The text of a failure; an expression for it that has no good value is passed over."""
    if rule.message_program is not None:
        try:
            text = str(rule.message_program.evaluate(given)).strip()
        except EvaluationError:
            text = ""
        if text and "\n" not in text and len(text.encode()) <= MAX_MESSAGE:
            return text
    return rule.message or f"failed rule: {rule.text}"


def _refused(scope: CelScope, rule: CelRule, value: Any, path: str, detail: str) -> FieldCause:
    is_key = rule.field_path.startswith("[")
    dot = "." if path and rule.field_path and not is_key else ""
    where = f"{path}{dot}{rule.field_path}" or "<nil>"
    is_part = _type(scope) in {"object", "array"}
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(where, detail)
        case "FieldValueRequired":
            return required(where, detail)
        case "FieldValueDuplicate":
            return (
                FieldCause(DUPLICATE, where, "Duplicate value")
                if is_part
                else duplicate(where, value)
            )
    if is_part:
        return FieldCause(INVALID, where, f"Invalid value: {detail}")
    return invalid(where, value, detail)
