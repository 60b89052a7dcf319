"""The answer to reviews of kinds that only a newer version of this program knows. Pure.

While a newer version is rolled out, its replicas register the webhooks of all their kinds, and the
API server asks the older replicas too. An older replica cannot let such a job through: nobody may
have suspended it, so it would run outside of its quota until the newer version leads. It cannot
refuse the job for good either. So it answers 429 and a time, which says that nothing was begun:
kubectl and all clients that are built on client-go send the request again by themselves.
"""

from __future__ import annotations

import re
from typing import Any

from multiqueue.api.validation.access import mapping
from multiqueue.webhooks.review import ReviewRequest

RETRY_SECONDS = 1
"""When to ask again. The next call may reach a newer replica; client-go asks ten times."""
_PATH = re.compile(r"/(mutate|validate)-[a-z0-9]([a-z0-9-]{0,200}[a-z0-9])?")


def is_path_of_a_kind(path: str) -> bool:
    """Whether webhooks of a kind may have this path, in this version or another."""
    return _PATH.fullmatch(path) is not None


def find_postponement(request: ReviewRequest) -> dict[str, Any] | None:
    """Return the metav1.Status that has the client ask again; None: the request is allowed.

    The removal of an object, and of its finalizers, is always allowed.
    """
    if request.operation == "DELETE" or mapping(request.obj, "metadata").get("deletionTimestamp"):
        return None
    kind = f"{request.kind}.{request.group}" if request.group else request.kind
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": 429,
        "reason": "TooManyRequests",
        "message": f"this replica's version does not know {kind}, and another replica's does: an "
        "upgrade or a downgrade is going on; send the request again",
        "details": {"retryAfterSeconds": RETRY_SECONDS},
    }
