"""Tables: what ``kubectl get`` shows, made by the server."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from multiqueue.apiserver.kinds import JsonObject, Kind, KindVersion

IncludeObject = Literal["None", "Metadata", "Object"]


def render(
    kind: Kind,
    version: KindVersion,
    objects: Iterable[Mapping[str, Any]],
    *,
    now: datetime,
    include_object: IncludeObject = "Metadata",
    list_metadata: Mapping[str, Any] | None = None,
    with_columns: bool = True,
) -> JsonObject:
    """A meta.k8s.io/v1 Table of these objects (of ``version``).

    Args:
        kind: their kind.
        version: their version.
        objects: what the rows show.
        now: for ages.
        include_object: the query parameter: what each row carries in ``object``.
        list_metadata: ``metadata`` of the list (resourceVersion, continue, remainingItemCount); if None, that of
            the only object.
        with_columns: False in watch frames after the first.
    """
    _ = kind, version, objects, now, include_object, list_metadata, with_columns
    raise NotImplementedError
