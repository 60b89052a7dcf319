"""Access to the metrics: the API server identifies a token's user and reviews the rights.

Parity: controller-runtime's authentication and authorization filter, which guards upstream's
metrics; whoever is bound to the ClusterRole ``kueue-metrics-reader`` may read them.
"""

from __future__ import annotations

from multiqueue.kube.client import KubeClient
from multiqueue.observability.server import MetricsRefusal
from multiqueue.visibility.authentication import Authenticator
from multiqueue.visibility.authorization import ApiAction, RightsReviewer
from multiqueue.visibility.front_proxy import FrontProxyTrust
from multiqueue.visibility.refusals import StatusRefusal

MAX_ASKING = 8
"""The limit of concurrent reviews: strangers must not delay the manager's own requests."""
BUSY = MetricsRefusal(503, "Too many tokens to check; try again")
NO_TOKEN = MetricsRefusal(401, "Unauthorized: a bearer token is needed")


class MetricsAccess:
    """Checks bearer tokens by TokenReview and SubjectAccessReview.

    Args:
        client: The client of the cluster that issued the tokens.
    """

    def __init__(self, client: KubeClient) -> None:
        self._authenticator = Authenticator(
            client, FrontProxyTrust
        )  # tokens only: no certificate counts
        self._authorizer = RightsReviewer(client)
        self._asking = 0

    async def check(self, authorization: str, path: str) -> MetricsRefusal | None:
        """Return why this header does not give access to the path, or None if it does."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return NO_TOKEN
        if self._asking >= MAX_ASKING:
            return BUSY
        self._asking += 1
        try:
            user = await self._authenticator.authenticate(None, [("authorization", authorization)])
            await self._authorizer.authorize(user, ApiAction(verb="get", path=path))
        except StatusRefusal as refusal:
            return MetricsRefusal(refusal.code, str(refusal))
        finally:
            self._asking -= 1
        return None
