"""Field selectors: ``metadata.name=a,status.phase!=Running``."""

from collections.abc import Callable
from dataclasses import dataclass

from multiqueue.embedded.server.entry import StoredObject, decode_in
from multiqueue.embedded.server.kinds import Kind, KindVersion
from multiqueue.embedded.server.status import bad_request

NAME = "metadata.name"
NAMESPACE = "metadata.namespace"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms ``(field, value, equal)`` that must all hold."""

    terms: tuple[tuple[str, str, bool], ...]

    @property
    def exact_name(self) -> str | None:
        """The only name that can match, if there is one: single objects need no walk."""
        return next((value for name, value, equal in self.terms if name == NAME and equal), None)

    def matcher(self, kind: Kind, version: KindVersion) -> Callable[[StoredObject], bool]:
        """A test for stored objects.

        Raises:
            StatusError: a field is not selectable.
        """
        reads = [(_reader(name, kind, version), value, equal) for name, value, equal in self.terms]
        return lambda entry: all((read(entry) == value) is equal for read, value, equal in reads)


def parse_field_selector(text: str) -> FieldSelector:
    """Parse the query parameter.

    Raises:
        StatusError: the text is malformed.
    """
    terms = []
    for term in filter(None, _split(text)):
        name, operator, value = _term(term)
        if not operator:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append((name.strip(), _unescape(value), operator != "!="))
    return FieldSelector(tuple(terms))


def _term(term: str) -> tuple[str, str, str]:
    for index, character in enumerate(term):
        if term.startswith(("!=", "=="), index):
            return term[:index], term[index : index + 2], term[index + 2 :]
        if character == "=":
            return term[:index], "=", term[index + 1 :]
    return term, "", ""


def _split(text: str) -> list[str]:
    """Split at commas that no backslash escapes."""
    terms, current, escaped = [], "", False
    for character in text:
        if character == "," and not escaped:
            terms.append(current)
            current = ""
        else:
            current += character
        escaped = character == "\\" and not escaped
    return [*terms, current]


def _unescape(value: str) -> str:
    for escaped, plain in ((r"\,", ","), (r"\=", "="), (r"\\", "\\")):
        value = value.replace(escaped, plain)
    return value


def _reader(name: str, kind: Kind, version: KindVersion) -> Callable[[StoredObject], str]:
    if name == NAME:
        return lambda entry: entry.name
    if name == NAMESPACE and kind.namespaced:
        return lambda entry: entry.namespace
    read = version.selectable_fields.get(name)
    if read is None:
        raise bad_request(f"field label not supported: {name}")
    if version.storage:
        return lambda entry: entry.select(name, read)
    return lambda entry: read(decode_in(kind, version, entry))
