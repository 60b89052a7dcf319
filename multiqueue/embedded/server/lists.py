"""Lists: a consistent view of a collection at one revision, whole or in pages."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import orjson

from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.field_selectors import (
    FieldSelector,
    parse_field_selector,
)
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.status import (
    StatusError,
    bad_request,
    expired,
    too_large_resource_version,
)
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.watch import Event, Matches
from multiqueue.lib.selectors import EVERYTHING, LabelSelector, SelectorError, parse_label_selector

MAX_UINT64, MAX_DIGITS = 2**64 - 1, 20

TOO_OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You must "
    "start a new list without the continue parameter."
)


@dataclass(frozen=True, slots=True)
class ListSelection:
    """Which objects of a collection are meant."""

    target: OperationTarget
    labels: LabelSelector
    fields: FieldSelector
    matches: Matches | None
    """None: all."""

    @property
    def namespace(self) -> str | None:
        """None: all namespaces (or a cluster-scoped kind)."""
        return self.target.namespace or None


def parse_selection(target: OperationTarget, query: Mapping[str, str]) -> ListSelection:
    """The selectors of a request; a name in the path is a selector too.

    Raises:
        StatusError: 400.
    """
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        raise bad_request(str(error)) from error
    text = query.get("fieldSelector", "")
    if target.name:
        text = f"metadata.name={target.name},{text}" if text else f"metadata.name={target.name}"
    fields = parse_field_selector(text)
    return ListSelection(target, labels, fields, _matcher(target, labels, fields))


def _matcher(
    target: OperationTarget, labels: LabelSelector, fields: FieldSelector
) -> Matches | None:
    if not fields.terms:
        return None if labels is EVERYTHING else lambda entry: labels.matches(entry.labels)
    fields_match = fields.matcher(target.kind, target.version)
    if labels is EVERYTHING:
        return fields_match
    return lambda entry: labels.matches(entry.labels) and fields_match(entry)


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """What a list request is answered with."""

    entries: list[StoredObject]
    revision: int
    next_token: str = ""
    remaining: int | None = None

    def metadata(self) -> JsonObject:
        """The ListMeta."""
        metadata: JsonObject = {"resourceVersion": str(self.revision)}
        if self.next_token:
            metadata["continue"] = self.next_token
            if self.remaining is not None:
                metadata["remainingItemCount"] = self.remaining
        return metadata


def find_page(
    store: ObjectStore, selection: ListSelection, query: Mapping[str, str], limit: int
) -> ListAnswer:
    """The page that a request asks for.

    Raises:
        StatusError: 400, 410 (too old), 504 (from the future).
    """
    token = query.get("continue", "")
    revision, after = _position(store, selection, query, token)
    entries: Iterable[StoredObject] = _entries_at(store, selection, revision, after)
    if selection.matches is not None:
        entries = filter(selection.matches, entries)
    if not limit:
        return ListAnswer(list(entries), revision)
    iterator = iter(entries)
    page = list(islice(iterator, limit))
    more = next(iterator, None)
    if more is None:
        return ListAnswer(page, revision)
    remaining = 1 + sum(1 for _ in iterator) if selection.matches is None else None
    last = page[-1]
    return ListAnswer(page, revision, encode_token(revision, last.namespace, last.name), remaining)


def encode_token(revision: int, namespace: str, name: str) -> str:
    """A continue token: the revision of the list and the last object that was sent."""
    value = {"v": "meta.k8s.io/v1", "rv": revision, "start": f"{namespace}/{name}"}
    return base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def _decode_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        value = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = value["start"].partition("/")
        return int(value["rv"]), (namespace, name)
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error


def _position(
    store: ObjectStore, selection: ListSelection, query: Mapping[str, str], token: str
) -> tuple[int, tuple[str, str] | None]:
    """(revision, last object already sent)."""
    asked = query.get("resourceVersion", "")
    match = query.get("resourceVersionMatch", "")
    _check_match(asked, match, token)
    if token:
        revision, after = _decode_token(token)
        if revision < store.collection(selection.target.kind.key).history.floor:
            raise expired(TOO_OLD_CONTINUE)
        return revision, after
    wanted = parse_revision(asked)
    if wanted > store.revision:
        raise too_large_resource_version(wanted, store.revision)
    if match == "Exact":
        floor = store.collection(selection.target.kind.key).history.floor
        if wanted < floor:
            raise expired(
                f"The resourceVersion for the provided list is too old: {wanted} ({floor})"
            )
        return wanted, None
    return store.revision, None


def _check_match(asked: str, match: str, token: str) -> None:
    if not match:
        return
    field = "resourceVersionMatch"
    if token:
        raise bad_request(f"{field}: Forbidden: {field} is forbidden when continue is provided")
    if not asked:
        raise bad_request(
            f"{field}: Forbidden: {field} is forbidden unless resourceVersion is provided"
        )
    if match not in {"Exact", "NotOlderThan"}:
        supported = '"Exact", "NotOlderThan"'
        raise bad_request(f'{field}: Unsupported value: "{match}": supported values: {supported}')
    if match == "Exact" and asked == "0":
        raise bad_request(
            f'{field}: Forbidden: {field} "Exact" is forbidden for resourceVersion "0"'
        )


def parse_revision(text: str) -> int:
    """A resourceVersion; "" and "0" are 0.

    Raises:
        StatusError: 400.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise _no_revision(text, "invalid syntax")
    if len(text) > MAX_DIGITS or int(text) > MAX_UINT64:
        raise _no_revision(text, "value out of range")
    return int(text)


def _no_revision(text: str, why: str) -> StatusError:
    return bad_request(
        f'invalid resource version: resourceVersion: Invalid value: "{text}": '
        f'strconv.ParseUint: parsing "{text}": {why}'
    )


def _entries_at(
    store: ObjectStore, selection: ListSelection, revision: int, after: tuple[str, str] | None
) -> Iterable[StoredObject]:
    """Objects as they were at a revision, in order, behind ``after``."""
    target = selection.target
    key = target.kind.key
    collection = store.collection(key)
    newer = store.changes_since(key, revision) if revision < store.revision else []
    if newer:
        entries = iter(_undone(collection.entries(selection.namespace), newer, selection.namespace))
    elif (name := selection.fields.exact_name) is not None and selection.namespace is not None:
        found = collection.get(selection.namespace, name)
        entries = iter([found] if found else [])
    elif name is not None and not target.kind.namespaced:
        found = collection.get("", name)
        entries = iter([found] if found else [])
    else:
        return collection.entries(selection.namespace, after)
    if after is None:
        return entries
    return (entry for entry in entries if (entry.namespace, entry.name) > after)


def _undone(
    entries: Iterable[StoredObject], newer: Sequence[Event], namespace: str | None
) -> list[StoredObject]:
    """Take newer changes back."""
    world = {(entry.namespace, entry.name): entry for entry in entries}
    for event in reversed(newer):
        key = (event.entry.namespace, event.entry.name)
        if namespace is not None and key[0] != namespace:
            continue
        if event.previous is None:
            world.pop(key, None)
        else:
            world[key] = event.previous
    return [world[key] for key in sorted(world)]
