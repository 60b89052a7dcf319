"""Converts objects by webhooks before they are read.

Readers take objects from `entry.in_version`, which never waits: it returns the stored bytes, the
result of a function, or bytes that were prepared here. Prepared bytes are kept with one state of an
object, so that each state is converted once per version.
Kinds without a webhook pass through without waiting.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from multiqueue.embedded.server import versions
from multiqueue.embedded.server.conversion.review import (
    ConversionFailed,
    build_review,
    check_converted,
    read_converted,
)
from multiqueue.embedded.server.entry import StoredObject, encode_bare
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion
from multiqueue.embedded.server.status import StatusError
from multiqueue.embedded.server.webhook_transport import WebhookFailed, WebhookTransport

TIMEOUT_SECONDS = 30.0
"""As in Kubernetes."""
MAX_OBJECTS = 500
"""Most objects in one review; a longer list takes several reviews, one after the other."""


class Conversions:
    """Calls the conversion webhooks of definitions."""

    def __init__(self, transport: WebhookTransport) -> None:
        self._transport = transport

    async def prepare(
        self, kind: Kind, version: KindVersion, entries: Iterable[StoredObject]
    ) -> None:
        """Convert objects to a version ahead of their readers.

        Raises:
            StatusError: 500, the webhook failed.
        """
        if kind.conversion is None:
            return
        key = kind.api_version(version.name)
        missing = [entry for entry in entries if key not in entry.versions]
        converted = await self._convert(kind, [entry.decode_bare() for entry in missing], key)
        for entry, obj in zip(missing, converted, strict=True):
            entry.versions[key] = encode_bare(obj)

    async def convert(
        self, kind: Kind, given: KindVersion, wanted: KindVersion, obj: JsonObject
    ) -> JsonObject:
        """Convert between two versions of a kind; takes the object over.

        Raises:
            StatusError: 500, the webhook failed.
        """
        if kind.conversion is None:
            return versions.convert(kind, given, wanted, obj)
        return (await self._convert(kind, [obj], kind.api_version(wanted.name)))[0]

    async def to_storage(self, kind: Kind, version: KindVersion, obj: JsonObject) -> JsonObject:
        """Convert to the storage version; takes the object over.

        Raises:
            StatusError: 500, the webhook failed.
        """
        if kind.conversion is None:
            return versions.to_storage(kind, version, obj)
        return await self.convert(kind, version, kind.storage_version, obj)

    async def _convert(
        self, kind: Kind, objects: Sequence[JsonObject], api_version: str
    ) -> list[JsonObject]:
        """The objects in a version, in their order; those that are in it already stay."""
        assert kind.conversion is not None, "only kinds with a webhook come here"
        result = list(objects)
        others = [i for i, obj in enumerate(objects) if obj["apiVersion"] != api_version]
        for start in range(0, len(others), MAX_OBJECTS):
            places = others[start : start + MAX_OBJECTS]
            batch = [objects[place] for place in places]
            converted = await self._ask(kind.conversion, batch, api_version)
            for place, obj in zip(places, converted, strict=True):
                result[place] = obj
        return result

    async def _ask(
        self, client_config: Mapping[str, Any], objects: list[JsonObject], api_version: str
    ) -> list[JsonObject]:
        uid = str(uuid.uuid4())
        body = build_review(uid, api_version, objects)
        try:
            answer = await self._transport.post(client_config, TIMEOUT_SECONDS, body)
            converted = read_converted(answer, uid, len(objects))
            for index, (before, after) in enumerate(zip(objects, converted, strict=True)):
                converted[index] = check_converted(before, after, api_version, index)
        except WebhookFailed as error:
            raise _failure(objects[0], f"failed: {error}") from error
        except ConversionFailed as error:
            raise _failure(objects[0], str(error)) from error
        return converted


def _failure(obj: JsonObject, what: str) -> StatusError:
    """Return the error of a failed conversion; like Kubernetes', it has no reason."""
    text = f"conversion webhook for {obj['apiVersion']}, Kind={obj['kind']} {what}"
    return StatusError(500, "", text)
