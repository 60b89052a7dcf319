from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.kube import resources
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import JOBS, NODES, PODS, SECRETS, WORKLOADS, Resource


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("n"), "/api/v1/namespaces/n/pods"),
        (PODS.path("n", "a", "status"), "/api/v1/namespaces/n/pods/a/status"),
        (NODES.path(None, "gpu-1"), "/api/v1/nodes/gpu-1"),
        (NODES.path("ignored", "gpu-1"), "/api/v1/nodes/gpu-1"),
        (JOBS.path("n", "a"), "/apis/batch/v1/namespaces/n/jobs/a"),
        (WORKLOADS.path("n"), "/apis/kueue.x-k8s.io/v1beta2/namespaces/n/workloads"),
    ],
)
def test_paths(got: str, want: str) -> None:
    assert got == want


@pytest.mark.parametrize("name", ["", ".", "..", "../secrets/x", "a/b", "a%2Fb", "a?x", "a#b", "ä"])
def test_a_name_never_becomes_another_request(name: str) -> None:
    with pytest.raises(NotFound, match="not a name"):
        SECRETS.path("n", name)
    if name:
        with pytest.raises(NotFound, match="not a name"):
            SECRETS.path(name, "a")


@settings(deadline=None)  # the machine may be busy
@given(st.text(min_size=1))
def test_whatever_the_name_it_stays_one_segment(name: str) -> None:
    try:
        path = SECRETS.path("n", name)
    except NotFound:
        return
    assert path == f"/api/v1/namespaces/n/secrets/{name}"
    assert path.count("/") == 6


def test_a_namespaced_object_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path(None, "a")


def test_no_two_constants_are_one_collection() -> None:
    all_resources = [v for v in vars(resources).values() if isinstance(v, Resource)]
    assert len({r.path() for r in all_resources}) == len(all_resources)
    assert PODS.api_version == "v1"
    assert JOBS.api_version == "batch/v1"
