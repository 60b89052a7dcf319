"""Authentication reviews, which are answered and never stored."""

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.auth import BadToken, TokenAuthenticator
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext
from multiqueue.embedded.server.status import bad_request


def token_review(
    authenticator: TokenAuthenticator, review: JsonObject, _context: RequestContext
) -> JsonObject:
    """Answer a TokenReview."""
    spec = review.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    try:
        verified = authenticator.verify(spec["token"], spec.get("audiences") or ())
    except BadToken as error:
        return {**review, "status": {"user": {}, "error": str(error)}}
    status: JsonObject = {
        "authenticated": True,
        "user": verified.user.as_dict(),
        "audiences": list(verified.audiences),
    }
    return {**review, "status": status}


def _self_subject_review(review: JsonObject, context: RequestContext) -> JsonObject:
    metadata = {**review["metadata"], "creationTimestamp": format_time(context.now)}
    return {**review, "metadata": metadata, "status": {"userInfo": dict(context.user)}}


SELF_SUBJECT_REVIEW_HOOKS = Hooks(respond=_self_subject_review)
