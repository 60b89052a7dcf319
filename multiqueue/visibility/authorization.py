"""Reviews of every request except health probes; results are cached for some seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import KubeError
from multiqueue.kube.resources import SUBJECT_ACCESS_REVIEWS
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.expiring import ExpiringCache
from multiqueue.visibility.refusals import StatusRefusal, cannot_review
from multiqueue.visibility.slots import Slots

ALLOWED_SECONDS = 10.0
"""How long a review stays valid, as in upstream's delegated authorizer."""
MAX_ANSWERS = 4096
MAX_REVIEWS, MAX_REVIEWS_OF_A_USER = 256, 64
"""The limits of concurrent reviews: in all, and of one user.

Following all pods of a gang takes one review per pod. No user may use up all reviews; users without
credentials count as one.
"""
MASTERS = "system:masters"
"""A group that needs no review: the API server's own checks must depend on nobody."""
WATCH = "watch"
NO_QUERY: Mapping[str, str] = {}
OPEN_PATHS = ("/healthz", "/livez", "/readyz")

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}

log = structlog.get_logger(component="visibility")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAction:
    """The action of a request; ``path`` alone describes it if it is about no resource."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""


def action_of(method: str, path: str, query: Mapping[str, str] = NO_QUERY) -> ApiAction:
    """Read the action from a path and its query, as Kubernetes does.

    ``/apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE]]`` is about a
    resource; any other path only about itself.
    """
    verb = _VERBS.get(method, method.lower())
    parts = [part for part in path.split("/") if part]
    if len(parts) < 4 or parts[0] != "apis":
        return ApiAction(verb=method.lower(), path=path)
    group, version, *rest = parts[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
        if verb == "list" and query.get("watch", "") in {"1", "true"}:
            verb = WATCH
    return ApiAction(
        verb=verb,
        path=path,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        name=name,
        subresource=subresource,
    )


class RightsReviewer:
    """Asks the API server for users' rights."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._answers: ExpiringCache[tuple[AuthenticatedUser, ApiAction], bool] = ExpiringCache(
            seconds=ALLOWED_SECONDS, limit=MAX_ANSWERS
        )
        self._slots = Slots(MAX_REVIEWS, MAX_REVIEWS_OF_A_USER)

    async def authorize(self, user: AuthenticatedUser, action: ApiAction) -> None:
        """Return if the user may do the action.

        Raises:
            StatusRefusal: 403; 429 if too many reviews for this user are running; 500 if the API
                server cannot be asked.
        """
        if MASTERS in user.groups or action.path.startswith(OPEN_PATHS):
            return
        allowed = self._answers.get((user, action))
        if allowed is None:
            with self._slots.take(user.name):
                allowed = await self._review(user, action)
            self._answers.put((user, action), allowed)
        if not allowed:
            raise forbidden(user, action)

    async def _review(self, user: AuthenticatedUser, action: ApiAction) -> bool:
        review = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": review_spec(user, action),
        }
        try:
            answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, review)
        except KubeError as error:
            log.warning("access cannot be reviewed", error=str(error))
            raise cannot_review("the access cannot be reviewed") from error
        return bool((answer.get("status") or {}).get("allowed"))


def review_spec(user: AuthenticatedUser, action: ApiAction) -> dict[str, Any]:
    """Return the spec of the SubjectAccessReview."""
    spec: dict[str, Any] = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
    }
    if not action.resource:
        return {**spec, "nonResourceAttributes": {"path": action.path, "verb": action.verb}}
    attributes = {
        "verb": action.verb,
        "group": action.group,
        "version": action.version,
        "namespace": action.namespace,
        "resource": action.resource,
        "subresource": action.subresource,
        "name": action.name,
    }
    return {**spec, "resourceAttributes": {k: v for k, v in attributes.items() if v}}


def forbidden(user: AuthenticatedUser, action: ApiAction) -> StatusRefusal:
    """Return the refusal, which names the missing right."""
    if not action.resource:
        message = f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"'
        return StatusRefusal(403, "Forbidden", message)
    resource = "/".join(filter(None, (action.resource, action.subresource)))
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    subject = ".".join(filter(None, (action.resource, action.group)))
    details = {"group": action.group, "kind": action.resource}
    if action.name:
        subject += f' "{action.name}"'
        details = {"name": action.name, **details}
    message = (
        f'{subject} is forbidden: User "{user.name}" cannot {action.verb} resource "{resource}" '
        f'in API group "{action.group}" {where}'
    )
    return StatusRefusal(403, "Forbidden", message, details)
