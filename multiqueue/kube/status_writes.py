"""Writes the status of an object that an informer follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.informer import Informer


class _KeyedMetadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class _Stored(Protocol):
    @property
    def metadata(self) -> _KeyedMetadata: ...


S = TypeVar("S", bound=_Stored)


async def write_status(
    client: KubeClient,
    informer: Informer[S],
    obj: S,
    status: Mapping[str, Any],
    *,
    over_any: bool = False,
    on_answer: Callable[[S], None] = lambda _: None,
) -> S | None:
    """Patch an object's status; the informer has the answer before the call returns.

    Args:
        client: The client of the informer's cluster.
        informer: The informer of the kind.
        obj: The object as it was read.
        status: The patch of its status.
        over_any: Write over whatever the object has become, not only over what was read.
        on_answer: Called with the answer before the informer's handlers are.

    Returns:
        The object as it is now; None if it is gone.

    Raises:
        Conflict: somebody wrote in between.
    """
    version = {} if over_any else {"metadata": {"resourceVersion": obj.metadata.resource_version}}
    try:
        written = await client.patch(
            informer.resource,
            obj.metadata.name,
            {**version, "status": status},
            namespace=obj.metadata.namespace or None,
            subresource="status",
            decode=informer.decode,
        )
    except NotFound:
        return None
    on_answer(written)
    informer.observe(written)
    return written
