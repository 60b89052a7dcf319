"""Reads untrusted YAML within bounds of size, depth and expansion.

libyaml's composer recurses in C, so deep nesting would end the process. References (aliases, merge
keys) can expand a few bytes to gigabytes. So the events of the text are counted first, without
recursion and without keeping them; the text is composed only afterwards.

Guarantees: only `YamlError` is raised, and no message repeats a value. Dates stay strings, as in
the JSON that Kubernetes makes of YAML. Keys and values have only the types of JSON, unless an
explicit tag asks for another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from multiqueue.lib.bounded_json import MAX_LEVELS

if TYPE_CHECKING:
    import yaml

MAX_DIGITS = 400
"""Longer numbers are refused: no field takes them, and converting them takes quadratic time."""
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class YamlError(ValueError):
    """A text that is refused, with the problem and its line."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {problem}" if line is not None else problem)
        self.problem = problem
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlLimits:
    """Limits of a YAML text.

    Attributes:
        size: Bytes of a text.
        nodes: Mappings, lists and scalars of all its documents, with references written out.
        levels: Levels of nesting.
    """

    size: int = 64 << 20
    nodes: int = 4_000_000
    levels: int = MAX_LEVELS

    @property
    def characters(self) -> int:
        """Most characters of all scalars, with references written out."""
        return 4 * self.size


LIMITS = YamlLimits()
"""Limits for files of users: they allow a list of all objects of a large cluster."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text, and the line that it begins in."""

    line: int
    value: Any


def load(text: str | bytes, limits: YamlLimits = LIMITS) -> Any:
    """Return the value of a text with one document; None if it is empty.

    Raises:
        YamlError: it is not YAML, has a second document, or exceeds the limits.
    """
    documents = load_documents(text, limits)
    if len(documents) > 1:
        raise YamlError("a second document begins; only one is read", documents[1].line)
    return documents[0].value if documents else None


def load_documents(text: str | bytes, limits: YamlLimits = LIMITS) -> list[Document]:
    """Return all documents of a text.

    Raises:
        YamlError: it is not YAML, or exceeds the limits.
    """
    import yaml

    try:
        check_bounds(text, limits)
        return list(_construct(text))
    except yaml.YAMLError as error:
        raise _explain(error, limits) from None
    except YamlError:
        raise
    except UnicodeError:
        raise YamlError("it is not UTF-8 text") from None
    # Exceptions of constructors for a value that does not match its tag: `!!bool x`, `!!int ""`.
    except (ValueError, KeyError, AttributeError, IndexError, TypeError, OverflowError):
        raise YamlError("a value does not fit its tag") from None


def check_bounds(text: str | bytes, limits: YamlLimits = LIMITS) -> None:
    """Refuse a text that exceeds the limits, before it is composed.

    Cost: proportional to the text, or less if it is refused; memory for its anchors only.

    Raises:
        YamlError: it exceeds the limits.
        yaml.YAMLError: it is not YAML.
    """
    import yaml

    if len(text) > limits.size:
        raise YamlError(f"it is larger than {limits.size:,} bytes")
    count = _Count(limits)
    for event in yaml.parse(text, Loader=_loader()):
        if isinstance(event, yaml.ScalarEvent):
            count.add_scalar(event.anchor, len(event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            count.begin(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            count.end()
        elif isinstance(event, yaml.AliasEvent):
            count.add_reference(event.anchor)
        elif isinstance(event, yaml.DocumentStartEvent):
            count.forget_anchors()


@dataclass(frozen=True, slots=True)
class _Extent:
    """The size of a node and all nodes below it, with references written out."""

    nodes: int
    characters: int
    levels: int


@dataclass(slots=True)
class _Open:
    """An open mapping or list: the counts before it, and its nesting depth."""

    anchor: str | None
    nodes: int
    characters: int
    levels: int = 0


class _Count:
    """Counts nodes as they would be with references written out."""

    def __init__(self, limits: YamlLimits) -> None:
        self._limits = limits
        self._nodes = 0
        self._characters = 0
        self._open: list[_Open] = []
        self._extents: dict[str, _Extent | None] = {}

    def forget_anchors(self) -> None:
        """Forget the anchors of the last document, because a new one begins."""
        self._extents.clear()

    def add_scalar(self, anchor: str | None, length: int) -> None:
        self._add(1, length, "it holds more than {:,} values")
        if anchor is not None:
            self._extents[anchor] = _Extent(1, length, 0)

    def begin(self, anchor: str | None) -> None:
        self._open.append(_Open(anchor, self._nodes, self._characters))
        if len(self._open) > self._limits.levels:
            raise YamlError(_too_deep(self._limits))
        self._add(1, 0, "it holds more than {:,} values")
        if anchor is not None:
            self._extents[anchor] = None

    def end(self) -> None:
        ended = self._open.pop()
        levels = ended.levels + 1
        if self._open:
            self._open[-1].levels = max(self._open[-1].levels, levels)
        if ended.anchor is not None:
            self._extents[ended.anchor] = _Extent(
                self._nodes - ended.nodes, self._characters - ended.characters, levels
            )

    def add_reference(self, anchor: str | None) -> None:
        if anchor is None or anchor not in self._extents:
            return  # the composer says so
        extent = self._extents[anchor]
        if extent is None:
            raise YamlError("it contains itself")
        if len(self._open) + extent.levels > self._limits.levels:
            raise YamlError("excessive aliasing: its references nest too deep")
        self._add(extent.nodes, extent.characters, "excessive aliasing: more than {:,} values")
        if self._open:
            self._open[-1].levels = max(self._open[-1].levels, extent.levels)

    def _add(self, nodes: int, characters: int, problem: str) -> None:
        self._nodes += nodes
        self._characters += characters
        if self._nodes > self._limits.nodes:
            raise YamlError(problem.format(self._limits.nodes))
        if self._characters > self._limits.characters:
            raise YamlError("excessive aliasing: its references repeat too much text")


def _construct(text: str | bytes) -> Iterator[Document]:
    loader = _loader()(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            yield Document(node.start_mark.line + 1, loader.construct_document(node))
    finally:
        loader.dispose()


@cache
def _loader() -> type[yaml.SafeLoader]:
    """Return the safe loader without dates and without endless numbers."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML has it
            first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_number(self, node: yaml.ScalarNode) -> Any:
            if len(node.value) > MAX_DIGITS:
                problem = f"a number has more than {MAX_DIGITS} digits"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            is_int = node.tag.endswith(":int")
            return self.construct_yaml_int(node) if is_int else self.construct_yaml_float(node)

    Loader.add_constructor(_TIMESTAMP, yaml.SafeLoader.construct_yaml_str)
    for kind in ("int", "float"):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", Loader.construct_number)
    return Loader


def _explain(error: yaml.YAMLError, limits: YamlLimits) -> YamlError:
    """Describe a parser's error without the anchors, tags and keys that it quotes."""
    import yaml

    mark = getattr(error, "problem_mark", None)
    words = str(getattr(error, "problem", None) or "a character that YAML does not allow")
    if "nesting depth" in words:
        # libyaml looks ahead, and has a limit of its own: 1,000 levels since PyYAML 6.0.4.
        return YamlError(_too_deep(limits))
    if isinstance(error, yaml.constructor.ConstructorError | yaml.composer.ComposerError):
        words = words.partition("'")[0].partition(":")[0]
    return YamlError(" ".join(words.split()), mark.line + 1 if mark is not None else None)


def _too_deep(limits: YamlLimits) -> str:
    return f"it is nested more than {limits.levels} levels deep"
