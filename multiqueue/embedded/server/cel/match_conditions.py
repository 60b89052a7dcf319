"""``matchConditions`` of webhooks: whether a webhook is asked at all.

Deviates: ``authorizer`` is not offered; a condition that names it is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cel_expr_python.cel as cel  # noqa: PLR0402 - mypy finds it only so

from multiqueue.embedded.server.cel.declarations import Declarations
from multiqueue.lib.cel.environment import check_environment
from multiqueue.lib.cel.expression import (
    CheckError,
    EvaluationError,
    Program,
    activation,
    check,
    program,
)

_KIND = {"group": "string", "version": "string", "kind": "string"}
_RESOURCE = {"group": "string", "version": "string", "resource": "string"}
_USER = {
    "username": "string",
    "uid": "string",
    "groups": "list<string>",
    "extra": "map<string, dyn>",
}


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """One condition."""

    expression: str
    program: Program


def compile_conditions(conditions: Sequence[Mapping[str, Any]]) -> tuple[MatchCondition, ...]:
    """The conditions of a stored webhook."""
    expressions = [each["expression"].strip() for each in conditions]
    return tuple(MatchCondition(each, program(each)) for each in expressions)


def condition_error(expression: str) -> str | None:
    """Why an expression is no condition; None: it is one."""
    try:
        checked = check(_environment(), expression)
    except CheckError as error:
        return f"compilation failed: {error}"
    return None if checked.result == "BOOL" else "must evaluate to bool"


def all_hold(conditions: Sequence[MatchCondition], request: Mapping[str, Any]) -> bool:
    """Whether all conditions hold for the ``request`` of an AdmissionReview.

    Raises:
        EvaluationError: none is false, and some cannot be evaluated.
    """
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": {
            name: value for name, value in request.items() if name not in {"object", "oldObject"}
        },
    }
    given = activation(variables)
    errors = []
    for condition in conditions:
        try:
            if condition.program.evaluate(given) is not True:
                return False
        except EvaluationError as error:
            errors.append(f"expression '{condition.expression}' resulted in error: {error}")
    if errors:
        raise EvaluationError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return True


@lru_cache(maxsize=1)
def _environment() -> cel.Env:
    declarations = Declarations()
    kind, resource = declarations.message(_KIND), declarations.message(_RESOURCE)
    request = declarations.message(
        {
            "kind": kind,
            "resource": resource,
            "subResource": "string",
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": "string",
            "name": "string",
            "namespace": "string",
            "operation": "string",
            "userInfo": declarations.message(_USER),
            "dryRun": "bool",
            "options": "dyn",
        }
    )
    variables = {"object": "dyn", "oldObject": "dyn", "request": request}
    return check_environment(variables, declarations.pool())
