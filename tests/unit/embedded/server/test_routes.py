"""Resource paths."""

import pytest

from multiqueue.embedded.server.routes import Route, parse_route


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/api/v1/pods", Route("", "v1", "pods")),
        ("/api/v1/namespaces", Route("", "v1", "namespaces")),
        ("/api/v1/namespaces/a", Route("", "v1", "namespaces", name="a")),
        (
            "/api/v1/namespaces/a/status",
            Route("", "v1", "namespaces", name="a", subresource="status"),
        ),
        (
            "/api/v1/namespaces/a/finalize",
            Route("", "v1", "namespaces", name="a", subresource="finalize"),
        ),
        ("/api/v1/namespaces/a/pods", Route("", "v1", "pods", "a")),
        ("/api/v1/namespaces/a/pods/", Route("", "v1", "pods", "a")),
        ("/api/v1/namespaces/a/pods/b", Route("", "v1", "pods", "a", "b")),
        ("/api/v1/namespaces/a/pods/status", Route("", "v1", "pods", "a", "status")),
        ("/api/v1/namespaces/a/pods/b/log", Route("", "v1", "pods", "a", "b", "log")),
        ("/apis/batch/v1/jobs", Route("batch", "v1", "jobs")),
        ("/apis/batch/v1/namespaces/a/jobs/b", Route("batch", "v1", "jobs", "a", "b")),
        ("/apis/x.io/v1/things/b%3Ac", Route("x.io", "v1", "things", None, "b:c")),
    ],
)
def test_resource_paths(path: str, want: Route) -> None:
    assert parse_route(path) == want


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/batch",
        "/apis/batch/v1",
        "/healthz",
        "/api//pods",
        "/api/v1/namespaces/a/pods/b/log/c",
        "/openapi/v3",
    ],
)
def test_other_paths(path: str) -> None:
    assert parse_route(path) is None
