"""A rule: a small function that checks one object, and texts that describe the problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from multiqueue.api.validation.access import Object
from multiqueue.lint.finding import Severity
from multiqueue.lint.world import Lookup, declared_kinds

W = TypeVar("W", bound=Lookup)
W_contra = TypeVar("W_contra", bound=Lookup, contravariant=True)


@dataclass(frozen=True, slots=True)
class Hit:
    """The field, the problem and the remedy; ``severity`` if it differs from the rule's."""

    path: str
    what: str
    todo: str
    severity: Severity | None = None


@dataclass(frozen=True, kw_only=True)  # no slots: Generic sets an attribute of its own
class LintRule(Generic[W_contra]):
    """One rule.

    A ``LintRule[Lookup]`` needs only the object and the objects that it names, so it can run at
    admission. A ``LintRule[LintInput]`` needs everything that was read.

    Attributes:
        id: The id for ``--ignore`` and ``--rule``.
        kinds: The kinds of objects that `check` gets.
        title: The problem, in a few words.
        why: Why it matters, in a sentence.
        check: Yields the problems of one object, in the order of its fields.
        at_admission: False if the webhooks report the same already.
        of_declared: Whether `check` gets objects of declared kinds, too.
    """

    id: str
    kinds: tuple[str, ...]
    severity: Severity
    title: str
    why: str
    check: Callable[[Object, W_contra], Iterator[Hit]]
    at_admission: bool = True
    of_declared: bool = False

    @property
    def all_kinds(self) -> Sequence[str]:
        """The kinds of objects, with those that this context was told of, by their full names."""
        return (*self.kinds, *(declared_kinds() if self.of_declared else ()))


Check = Callable[[Object, W], Iterator[Hit]]


def lint_rule(
    id_: str,
    *,
    kinds: tuple[str, ...],
    severity: Severity,
    title: str,
    why: str,
    at_admission: bool = True,
    of_declared: bool = False,
) -> Callable[[Check[W]], LintRule[W]]:
    """Make a rule of the function below, its check. The arguments are fields of `LintRule`."""

    def build(check: Check[W]) -> LintRule[W]:
        return LintRule(
            id=id_,
            kinds=kinds,
            severity=severity,
            title=title,
            why=why,
            check=check,
            at_admission=at_admission,
            of_declared=of_declared,
        )

    return build
