"""From a request to what is asked about it."""

from __future__ import annotations

import pytest

from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, action_of, forbidden, review_spec
from multiqueue.visibility.expiring import ExpiringCache

GROUP = "visibility.kueue.x-k8s.io"
ROOT = f"/apis/{GROUP}/v1beta2"
USER = AuthenticatedUser(name="eve", uid="1", groups=("g",), extra=(("scopes", ("a", "b")),))


def resource(verb: str, path: str, *names: str) -> ApiAction:
    fields = dict(zip(("namespace", "resource", "name", "subresource"), names, strict=False))
    return ApiAction(verb=verb, path=path, group=GROUP, version="v1beta2", **fields)


CQ = f"{ROOT}/clusterqueues/cq/pendingworkloads"
LQ = f"{ROOT}/namespaces/ns/localqueues/lq/pendingworkloads"


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("GET", CQ, resource("get", CQ, "", "clusterqueues", "cq", "pendingworkloads")),
        ("HEAD", CQ, resource("get", CQ, "", "clusterqueues", "cq", "pendingworkloads")),
        ("GET", LQ, resource("get", LQ, "ns", "localqueues", "lq", "pendingworkloads")),
        ("DELETE", f"{ROOT}/a", resource("deletecollection", f"{ROOT}/a", "", "a")),
        ("GET", f"{ROOT}/a", resource("list", f"{ROOT}/a", "", "a")),
        ("POST", f"{ROOT}/a/b", resource("create", f"{ROOT}/a/b", "", "a", "b")),
        ("GET", ROOT, ApiAction(verb="get", path=ROOT)),
        ("GET", "/version", ApiAction(verb="get", path="/version")),
        ("POST", "/apis", ApiAction(verb="post", path="/apis")),
    ],
)
def test_what_a_request_wants(method: str, path: str, want: ApiAction) -> None:
    assert action_of(method, path) == want


def test_a_review_of_a_resource() -> None:
    assert review_spec(USER, action_of("GET", LQ)) == {
        "user": "eve",
        "uid": "1",
        "groups": ["g"],
        "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {
            "verb": "get",
            "group": GROUP,
            "version": "v1beta2",
            "namespace": "ns",
            "resource": "localqueues",
            "subresource": "pendingworkloads",
            "name": "lq",
        },
    }


def test_a_review_of_a_path() -> None:
    spec = review_spec(USER, action_of("GET", "/apis"))
    assert spec["nonResourceAttributes"] == {"path": "/apis", "verb": "get"}
    assert "resourceAttributes" not in spec


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            CQ,
            (
                f'clusterqueues.{GROUP} "cq" is forbidden: User "eve" cannot get resource '
                f'"clusterqueues/pendingworkloads" in API group "{GROUP}" at the cluster scope'
            ),
        ),
        (
            LQ,
            (
                f'localqueues.{GROUP} "lq" is forbidden: User "eve" cannot get resource '
                f'"localqueues/pendingworkloads" in API group "{GROUP}" in the namespace "ns"'
            ),
        ),
        ("/apis", 'forbidden: User "eve" cannot get path "/apis"'),
    ],
)
def test_a_refusal_says_what_it_would_take(path: str, message: str) -> None:
    refusal = forbidden(USER, action_of("GET", path))
    assert (refusal.code, refusal.reason, str(refusal)) == (403, "Forbidden", message)


def test_answers_are_forgotten() -> None:
    now = [0.0]
    cache: ExpiringCache[str, bool] = ExpiringCache(seconds=10, limit=2, clock=lambda: now[0])
    cache.put("a", value=True)
    now[0] = 9.9
    cache.put("b", value=False)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (True, False, None)
    now[0] = 10.1
    assert (cache.get("a"), cache.get("b")) == (None, False)
    cache.put("c", value=True)
    cache.put("d", value=True)
    assert (cache.get("b"), cache.get("c"), cache.get("d")) == (None, True, True)
