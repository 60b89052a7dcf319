"""Reviews: kinds that are asked and answered, never stored."""

from multiqueue.apiserver.kinds import Hooks, JsonObject, RequestContext


def _token_review(review: JsonObject, context: RequestContext) -> JsonObject:
    token = review.get("spec", {}).get("token", "")
    user = context.authenticate(token) if token else None
    if user is None:
        error = "no token was given" if not token else "the token is not known to this server"
        status: JsonObject = {"authenticated": False, "user": {}, "error": error}
    else:
        status = {"authenticated": True, "user": dict(user)}
    return {**review, "status": status}


def _self_subject_review(review: JsonObject, context: RequestContext) -> JsonObject:
    return {**review, "status": {"userInfo": dict(context.user)}}


TOKEN_REVIEW_HOOKS = Hooks(respond=_token_review)
SELF_SUBJECT_REVIEW_HOOKS = Hooks(respond=_self_subject_review)
