"""Who may see which rows: the native rights behind each resource, by SubjectAccessReview.

`server` has already checked the right on the path of a request. Here are the rights on the objects
that an answer is made of, and both kinds for the topics of a feed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, RightsReviewer
from multiqueue.visibility.fleet.resources import (
    GROUP,
    LINES,
    LIST_WORKLOADS,
    VERSION,
    VISIBILITY,
    WHATIFS,
    FleetResource,
    NativeRight,
)
from multiqueue.visibility.refusals import StatusRefusal

Recheck = Callable[[], Awaitable[object]]
"""Raises `StatusRefusal` once the credentials of a stream are not valid any more."""
AT_ONCE = 8
"""Reviews of one answer that run at the same time."""
MAX_NAMESPACES = 200
"""Namespaces that one answer asks about; Workloads of further ones stay nameless."""


class FleetRights:
    """Asks for rights.

    Args:
        reviewer: Asks the API server, and keeps answers for some seconds.
    """

    def __init__(self, reviewer: RightsReviewer) -> None:
        self._reviewer = reviewer

    async def require(
        self, user: AuthenticatedUser, resource: FleetResource, namespace: str, name: str = ""
    ) -> None:
        """Return if the user may see the objects that an answer is made of.

        Raises:
            StatusRefusal: 403 names the missing right; 429 or 500 as of `RightsReviewer`.
        """
        for action in native_actions(resource, namespace, name):
            await self._reviewer.authorize(user, action)

    async def require_watch(
        self, user: AuthenticatedUser, resource: FleetResource, action: ApiAction
    ) -> None:
        """Return if the user may watch, and see the objects that the rows are made of.

        Raises:
            StatusRefusal: as of `require`.
        """
        await self._reviewer.authorize(user, action)
        await self.require(user, resource, action.namespace, action.name)

    async def require_topic(
        self, user: AuthenticatedUser, resource: FleetResource, namespace: str, name: str = ""
    ) -> None:
        """Return if the user may read a resource, and the objects that it is made of.

        Raises:
            StatusRefusal: as of `require`.
        """
        action = ApiAction(
            verb="get" if name else "list",
            path="",
            group=GROUP,
            version=VERSION,
            namespace=namespace,
            resource=resource.plural,
            name=name,
        )
        await self._reviewer.authorize(user, action)
        await self.require(user, resource, namespace, name)

    async def authorize(self, user: AuthenticatedUser, action: ApiAction) -> None:
        """Return if the user has a right.

        Raises:
            StatusRefusal: as of `require`.
        """
        await self._reviewer.authorize(user, action)

    async def may(self, user: AuthenticatedUser, action: ApiAction) -> bool:
        """Whether a user has a right."""
        try:
            await self._reviewer.authorize(user, action)
        except StatusRefusal as refusal:
            if refusal.code != 403:
                raise
            return False
        return True

    async def find_visible(
        self, user: AuthenticatedUser, namespaces: Collection[str]
    ) -> frozenset[str]:
        """Return those of the namespaces whose Workloads the user may list.

        One review is enough for users who may list those of all namespaces.
        """
        if await self.may(user, native_action(LIST_WORKLOADS)):
            return frozenset(namespaces)
        asked, slots = sorted(namespaces)[:MAX_NAMESPACES], asyncio.Semaphore(AT_ONCE)

        async def ask(namespace: str) -> bool:
            async with slots:
                return await self.may(user, native_action(LIST_WORKLOADS, namespace))

        allowed = await asyncio.gather(*map(ask, asked))
        return frozenset(
            name for name, is_allowed in zip(asked, allowed, strict=True) if is_allowed
        )


def native_actions(resource: FleetResource, namespace: str, name: str) -> list[ApiAction]:
    """Return the rights on other objects that an answer needs."""
    if resource is LINES:
        kind = "localqueues" if namespace else "clusterqueues"
        right = NativeRight("get", VISIBILITY, kind, "pendingworkloads")
        return [native_action(right, namespace, name)]
    if resource is WHATIFS and namespace:
        return [native_action(LIST_WORKLOADS, namespace)]
    return [
        native_action(right, namespace, name if right.verb == "get" else "")
        for right in resource.native
    ]


def native_action(right: NativeRight, namespace: str = "", name: str = "") -> ApiAction:
    """Return a right as the action that is reviewed."""
    return ApiAction(
        verb=right.verb,
        path="",
        group=right.group,
        namespace=namespace,
        resource=right.resource,
        name=name,
        subresource=right.subresource,
    )
