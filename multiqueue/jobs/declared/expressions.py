"""The CEL expressions of a JobKind: checked once, evaluated often, never for long. Pure.

Anybody who may write a JobKind is trusted with the cluster, but a mistake must not stop the
manager. So an expression has at most `MAX_EXPRESSION` letters and `MAX_LOOPS` loops, its loops end
after 10,000 steps together, it cannot multiply text, and it is not evaluated again after it was
slow `MAX_SLOW` times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from multiqueue.api.v1alpha1.job_kind import MAX_EXPRESSION

if TYPE_CHECKING:
    from multiqueue.lib.cel.expression import Program

EXTRA_MISSING = (
    'expressions need the extra "kinds"; install it in the manager: pip install "multiqueue[kinds]"'
)
MAX_LOOPS = 4
SLOW_SECONDS = 0.1
"""CPU time of one evaluation after which it counts as slow; usual ones take 50 µs."""
MAX_SLOW = 3
_MULTIPLYING = frozenset({"replace", "join", "format"})
_TYPES: Mapping[str, tuple[tuple[str, ...], type | tuple[type, ...]]] = {
    "bool": (("BOOL",), bool),
    "int": (("INT", "UINT"), int),
    "string": (("STRING",), str),
    "map": (("MAP", "STRUCT"), dict),
}


class ExtraMissingError(Exception):
    """The libraries of the extra are not installed."""


class BadExpressionError(Exception):
    """An expression of a JobKind cannot be used; the message names its field.

    Attributes:
        wrong_type: Whether it compiles, but gives a value of another type.
    """

    def __init__(self, message: str, *, wrong_type: bool = False) -> None:
        super().__init__(message)
        self.wrong_type = wrong_type


class NoValueError(Exception):
    """An expression has no usable value for an object; the message names its field."""


class Wanted(NamedTuple):
    """An expression to compile.

    Attributes:
        field: The field of the JobKind, for messages.
        text: The expression.
        type: ``bool``, ``int``, ``string`` or ``map``.
        variables: The names that it may use, beside ``self``.
    """

    field: str
    text: str
    type: str
    variables: tuple[str, ...] = ()


class KindExpression:
    """An expression that fits its type.

    Args:
        wanted: The expression.
        program: What evaluates it.
        cpu_seconds: Tells the CPU time of this thread.
    """

    def __init__(
        self,
        wanted: Wanted,
        program: Program,
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        self.field = wanted.field
        self._type = wanted.type
        self._program = program
        self._cpu_seconds = cpu_seconds
        self._slow: list[float] = []

    def value(self, variables: Mapping[str, Any]) -> Any:
        """Return the value for these variables.

        Raises:
            NoValueError: there is none, it has the wrong type, or the expression is too slow.
        """
        from multiqueue.lib.cel.expression import EvaluationError

        if len(self._slow) >= MAX_SLOW:
            raise NoValueError(
                f"{self.field}: the expression took {max(self._slow):.1f} s of CPU time and is not "
                "evaluated any more; write a simpler one"
            )
        begun = self._cpu_seconds()
        try:
            value = _plain(self._program.evaluate(_activation(variables)))
        except EvaluationError as error:
            raise NoValueError(f"{self.field}: {error}") from error
        except (RuntimeError, TypeError, ValueError) as error:
            raise NoValueError(f"{self.field}: no value ({error})") from error
        finally:
            taken = self._cpu_seconds() - begun
            if taken > SLOW_SECONDS:
                self._slow.append(taken)
        expected = _TYPES[self._type][1]
        if not isinstance(value, expected) or (self._type == "int" and isinstance(value, bool)):
            got = "null" if value is None else type(value).__name__
            raise NoValueError(f"{self.field}: must give a value of type {self._type}, gives {got}")
        return value


def compile_expressions(wanted: Sequence[Wanted]) -> dict[str, KindExpression]:
    """Return the expressions by field; empty ones are left out.

    Raises:
        ExtraMissingError: CEL is not installed.
        BadExpressionError: an expression does not compile, is too long, or has the wrong type.
    """
    try:
        from multiqueue.lib.cel.expression import program
    except ImportError as error:
        raise ExtraMissingError(EXTRA_MISSING) from error
    found = {}
    for each in wanted:
        if each.text.strip():
            _check(each)
            found[each.field] = KindExpression(each, program(each.text))
    return found


def _check(wanted: Wanted) -> None:
    from multiqueue.lib.cel.expression import CheckError, check

    if len(wanted.text) > MAX_EXPRESSION:
        raise BadExpressionError(
            f"{wanted.field}: has {len(wanted.text)} letters; at most {MAX_EXPRESSION} are allowed"
        )
    try:
        checked = check(_environment(wanted.variables), wanted.text)
    except CheckError as error:
        raise BadExpressionError(f"{wanted.field}: does not compile: {error}") from error
    nodes = list(checked.tree.walk())
    banned = sorted({node.function for node in nodes if node.function in _MULTIPLYING})
    if banned:
        raise BadExpressionError(
            f"{wanted.field}: {banned[0]}() is not allowed, because it can multiply text"
        )
    loops = sum(node.kind == "comprehension_expr" for node in nodes)
    if loops > MAX_LOOPS:
        raise BadExpressionError(
            f"{wanted.field}: has {loops} loops (all, exists, filter, map, ...); "
            f"at most {MAX_LOOPS} are allowed"
        )
    prefixes = (*_TYPES[wanted.type][0], "DYN", "ANY")
    if not checked.result.upper().startswith(prefixes):
        hint = "; add .orValue(...)" if "OPTIONAL" in checked.result.upper() else ""
        raise BadExpressionError(
            f"{wanted.field}: must give a value of type {wanted.type}, gives "
            f"{checked.result.lower()}{hint}",
            wrong_type=True,
        )


@lru_cache(maxsize=8)
def _environment(variables: tuple[str, ...]) -> Any:
    from multiqueue.lib.cel.environment import check_environment, standard_pool

    return check_environment(dict.fromkeys(("self", *variables), "dyn"), standard_pool())


def _activation(variables: Mapping[str, Any]) -> Any:
    from multiqueue.lib.cel.expression import activation

    return activation(variables)


def _plain(value: Any) -> Any:
    """Return plain dicts and lists; the library wraps what is inside of maps and lists."""
    if hasattr(value, "plain_value"):
        value = value.plain_value()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
