"""Keeping the owners of fields through a request: what the client says about them, what the write
does to them, what webhooks and watchers see of them.
"""

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from multiqueue.embedded.server.causes import FieldCause, invalid, too_long
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion
from multiqueue.embedded.server.managed.owners import (
    MANAGED_FIELDS,
    NOBODY,
    UPDATE,
    Owners,
    check_shape,
    encode,
    is_reset,
    parse,
    writer,
)
from multiqueue.embedded.server.managed.updates import States, after_update, reset_fields
from multiqueue.embedded.server.managed.zero import zero_object
from multiqueue.embedded.server.status import bad_request

MAX_MANAGER_BYTES = 128
UNKNOWN = "unknown"
INVALID_AFTER_ADMISSION = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an "
    "outdated mutating admission controller; please fix your requests: "
)


@lru_cache(maxsize=1024)
def manager_of(user_agent: str) -> str:
    """The manager that a client without a ``fieldManager`` is: its program's name."""
    name = ""
    for letter in user_agent.partition("/")[0]:
        if _is_printable(letter):
            if len((name + letter).encode()) > MAX_MANAGER_BYTES:
                break
            name += letter
    return name or UNKNOWN


def check_manager(manager: str) -> list[FieldCause]:
    """What is wrong with a ``fieldManager``."""
    causes = []
    if len(manager.encode()) > MAX_MANAGER_BYTES:
        causes.append(too_long("fieldManager", MAX_MANAGER_BYTES))
    place = 0
    for letter in manager:
        if not _is_printable(letter):
            why = f"invalid character U+{ord(letter):04X} (at position {place})"
            causes.append(invalid("fieldManager", manager, why))
        place += len(letter.encode())
    return causes


def _is_printable(letter: str) -> bool:
    return letter == " " or unicodedata.category(letter)[0] in "LMNPS"


def asked(body: Any, live: Owners, *, kind: Kind, version: KindVersion) -> Owners:
    """The owners before a write: the live ones, unless the body says otherwise. Clients that know
    nothing of managedFields cannot lose them, and invalid entries are ignored.

    Raises:
        StatusError: 400, not a list of entries.
    """
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    value = metadata.get(MANAGED_FIELDS) if isinstance(metadata, Mapping) else None
    if value is None:
        return live
    if words := check_shape(value):
        what = f'{kind.kind} in version "{version.name}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{what}: {words}")
    if is_reset(value):
        # Parity: an empty list in an object without a Go type is as if it were not there.
        return NOBODY if value or kind.builtin else live
    try:
        return parse(value)
    except ValueError:
        return live


def after_create(
    kind: Kind, version: KindVersion, obj: JsonObject, *, owners: Owners, manager: str, now: str
) -> Owners:
    """The owners of a new object: its creator owns what it says and what defaults say."""
    who = writer(operation=UPDATE, manager=manager, api_version=kind.api_version(version.name))
    reset = reset_fields(version, "", builtin=kind.builtin)
    states = States(kind, version, old=zero_object(kind, version), new=obj, reset=reset)
    return after_update(owners, states, who, now)


def after_change(
    states: States, *, owners: Owners, manager: str, subresource: str, now: str
) -> Owners:
    """The owners after an update; who has none kept has none until the first apply."""
    if not owners:
        return owners
    who = writer(
        operation=UPDATE,
        manager=manager,
        api_version=states.kind.api_version(states.version.name),
        subresource=subresource,
    )
    return after_update(owners, states, who, now)


def after_admission(changed: JsonObject, owners: Owners) -> tuple[Owners, str | None]:
    """The owners that mutating webhooks left, and a warning if they are not valid."""
    value = (changed.get("metadata") or {}).get(MANAGED_FIELDS)
    if value is None:
        return NOBODY, None
    words = check_shape(value)
    if words is None:
        try:
            return parse(value), None
        except ValueError as error:
            words = str(error)
    return owners, INVALID_AFTER_ADMISSION + words


def shown(obj: JsonObject, owners: Owners) -> JsonObject:
    """The object as webhooks see it."""
    if not owners:
        return obj
    metadata = {**obj["metadata"], MANAGED_FIELDS: orjson.loads(encode(owners))}
    return {**obj, "metadata": metadata}
