"""A rule: a small function that looks at one object, and the words that go with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from multiqueue.api.validation.access import Object
from multiqueue.lint.finding import Severity
from multiqueue.lint.world import Lookup

W_contra = TypeVar("W_contra", bound=Lookup, contravariant=True)


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a rule found what, and what to do; ``severity`` where it differs from the rule's."""

    path: str
    what: str
    todo: str
    severity: Severity | None = None


@dataclass(frozen=True, kw_only=True)  # no slots: Generic sets an attribute of its own
class LintRule(Generic[W_contra]):
    """One rule.

    A ``Rule[Lookup]`` needs only the object and what it names, so it can be asked at admission; a
    ``Rule[World]`` looks at everything that was read.

    Attributes:
        id: What ``--ignore`` and ``--rule`` take.
        kinds: Of which objects `check` is asked.
        title: What it finds, in a few words.
        why: Why that matters, in a sentence.
        check: Yields what it finds at one object, in the order of its fields.
        at_admission: False where the webhooks say the same already.
    """

    id: str
    kinds: tuple[str, ...]
    severity: Severity
    title: str
    why: str
    check: Callable[[Object, W_contra], Iterator[Hit]]
    at_admission: bool = True
