"""One expression: checked against types, compiled once, evaluated often."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cel_expr_python.cel as cel  # noqa: PLR0402 - mypy finds it only so

from multiqueue.lib.cel.environment import run_environment
from multiqueue.lib.cel.syntax import CelNode, read_tree

_UNSUPPORTED = {
    "cel.@mapInsert": "transformMap and transformMapEntry are",
    "lists.range": "lists.range is",
}
"""What the checker knows and this server does not run: the first lacks an implementation, the
second makes lists of any length out of nothing.
"""
_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")


class CheckError(Exception):
    """An expression that does not compile; the message is for its author."""


class EvaluationError(Exception):
    """An expression that has no value for this input."""


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression that fits its types."""

    result: str
    """Its type, such as ``BOOL``."""
    tree: CelNode

    def uses(self, variable: str) -> bool:
        """Whether it reads a variable."""
        return any(node.name == variable for node in self.tree.walk())


@dataclass(frozen=True, slots=True)
class CelBinding:
    """A name for an expression inside of another, because Python has no value for it."""

    name: str
    value: str

    def around(self, text: str) -> str:
        """An expression in which the name may be used."""
        return f"cel.bind({self.name}, {self.value},\n{text}\n)"


def check(environment: cel.Env, text: str, binding: CelBinding | None = None) -> Checked:
    """Check an expression.

    Raises:
        CheckError: it does not compile, or uses what this server cannot run.
    """
    try:
        if binding is not None:
            run_environment().compile(text, disable_check=True)  # it is an expression by itself
        compiled = environment.compile(text if binding is None else binding.around(text))
    except RuntimeError as error:
        raise CheckError(_words(str(error), lines_before=int(binding is not None))) from error
    tree = read_tree(compiled.serialize())
    if binding is not None:
        tree = CelNode(tree.message.comprehension_expr.result)
    for node in tree.walk():
        if node.function in _UNSUPPORTED:
            raise CheckError(f"{_UNSUPPORTED[node.function]} not supported by this server")
    return Checked(compiled.return_type().name(), tree)


@lru_cache(maxsize=4096)
def program(text: str) -> "Program":
    """What evaluates a checked expression; the same for the same text."""
    return Program(run_environment().compile(text, disable_check=True))


class Program:
    """An expression ready to be evaluated. Loops end after 10,000 steps: the library's bound."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: cel.Expression) -> None:
        self._compiled = compiled

    def evaluate(self, activation: cel.Activation) -> Any:
        """The value.

        Raises:
            EvaluationError: there is none.
        """
        try:
            result = self._compiled.eval(activation)
        except RuntimeError as error:
            raise EvaluationError(_evaluation_words(str(error))) from error
        if result.type() == cel.Type.ERROR:
            raise EvaluationError(_evaluation_words(str(result.value())))
        return result.value()


def activation(variables: Mapping[str, Any]) -> cel.Activation:
    """Values of variables, converted once for all expressions that read them."""
    return run_environment().Activation(variables)


def _words(text: str, *, lines_before: int = 0) -> str:
    """The library's report, without its status codes and the names of made-up types."""
    if lines_before:
        text = re.sub(
            r"<input>:(\d+):", lambda it: f"<input>:{max(int(it[1]) - lines_before, 1)}:", text
        )
    return re.sub(r" not found in struct '[^']*'", "", _STATUS.sub("", text.strip()))


def _evaluation_words(text: str) -> str:
    """The errors that rules meet, in the words of Kubernetes' CEL."""
    words = _words(text)
    if found := re.match(r'Key not found in map : "?(.*?)"?$', words):
        return f"no such key: {found[1]}"
    if found := re.match(r"No matching overloads found : (.*)$", words):
        return "no such overload"
    if words == "Iteration budget exceeded":
        return "operation cancelled: actual cost limit exceeded"
    return words
