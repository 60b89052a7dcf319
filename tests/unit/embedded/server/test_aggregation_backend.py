"""Where the Service of an APIService leads."""

from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.embedded.server.aggregation.backend import Unresolved, find_address, read_backend

API_SERVICE = {
    "metadata": {"name": "v1.g"},
    "spec": {
        "group": "g",
        "version": "v1",
        "groupPriorityMinimum": 1,
        "versionPriority": 1,
        "service": {"namespace": "ns", "name": "svc", "port": 443},
    },
}
PORTS = {"ports": [{"name": "https", "port": 443}]}


def resolve(objects: dict[str, Any], mapped: dict[tuple[str, str], str]) -> str:
    def get(key: tuple[str, str], namespace: str, name: str) -> Any:
        found = objects.get(key[1]) if (namespace, name) == ("ns", "svc") else None
        return None if found is None else SimpleNamespace(decode=lambda: found)

    backend = read_backend(API_SERVICE)
    assert backend is not None
    return find_address(backend, SimpleNamespace(get=get), mapped)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("objects", "mapped", "want"),
    [
        ({}, {("ns", "svc"): "https://127.0.0.1:1/"}, "https://127.0.0.1:1"),
        (
            {"services": {"spec": {"type": "ExternalName", "externalName": "localhost"}}},
            {},
            "https://localhost:443",
        ),
    ],
    ids=["as told", "another host"],
)
def test_a_service_leads_to(objects: dict[str, Any], mapped: Any, want: str) -> None:
    assert resolve(objects, mapped) == want


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ({}, "ServiceNotFound"),
        ({"services": {"spec": {}}}, "ServicePortError"),
        ({"services": {"spec": PORTS}}, "EndpointsNotFound"),
    ],
)
def test_a_service_leads_nowhere(objects: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unresolved) as caught:
        resolve(objects, {})
    assert caught.value.reason == reason
