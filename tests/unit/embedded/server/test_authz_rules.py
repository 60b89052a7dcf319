"""Rules: what they grant."""

import pytest

from multiqueue.embedded.server.authz.attributes import Attributes, of_path, of_resource
from multiqueue.embedded.server.routes import parse_route


def wanted(method: str, path: str, *, watch: bool = False, **query: str) -> Attributes:
    route = parse_route(path)
    assert route is not None
    return of_resource(method, route, query, watch=watch)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (wanted("HEAD", "/api/v1/nodes/a"), Attributes("get", "", "nodes", name="a")),
        (wanted("OPTIONS", "/api/v1/nodes/a"), Attributes("", "", "nodes", name="a")),
        (wanted("GET", "/api/v1/pods", watch=True), Attributes("watch", "", "pods")),
        (wanted("GET", "/api/v1/pods/a", watch=True), Attributes("get", "", "pods", name="a")),
        (wanted("GET", "/api/v1/nodes", fieldSelector="metadata.name=a,x=y"),
         Attributes("list", "", "nodes", name="a")),
        (wanted("GET", "/api/v1/nodes", fieldSelector="metadata.name!=a"),
         Attributes("list", "", "nodes")),
        (wanted("GET", "/api/v1/nodes", fieldSelector="metadata.name=.."),
         Attributes("list", "", "nodes")),
        (wanted("GET", "/api/v1/nodes", fieldSelector="broken"), Attributes("list", "", "nodes")),
        (wanted("DELETE", "/api/v1/nodes", fieldSelector="metadata.name=a"),
         Attributes("deletecollection", "", "nodes")),
        (wanted("PUT", "/api/v1/namespaces/n/finalize"),
         Attributes("update", "", "namespaces", "finalize", "n", "n")),
        (of_path("POST", "/a"), Attributes("post", path="/a")),
    ],
    ids=["head", "another method", "a watch", "one object", "a selected name", "another name",
         "no name", "no selector", "a collection", "a namespace", "a path"],
)  # fmt: skip
def test_a_request_is_a_wish(got: Attributes, want: Attributes) -> None:
    assert got == want
