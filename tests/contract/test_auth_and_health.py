"""Who may ask, and what anybody may ask."""

import pytest

from tests.contract.client import Api


@pytest.mark.parametrize("authorization", ["Bearer wrong", "Bearer ", "Basic YTpi", "nonsense"])
async def test_unknown_users_are_unauthorized(api: Api, authorization: str) -> None:
    headers = {"Authorization": authorization}
    answer = await api.send("GET", "/api/v1/namespaces", headers=headers)
    assert answer.status in {401, 403}
    if api.cluster.embedded:
        assert answer.body["reason"] == answer.body["message"] == "Unauthorized"
        assert answer.body["code"] == 401


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(api: Api, path: str) -> None:
    answer = await api.send("GET", path)
    assert (answer.status, answer.text) == (200, "ok")
    verbose = await api.send("GET", path, verbose="")
    assert "[+]ping ok" in verbose.text
    assert f"{path.strip('/')} check passed" in verbose.text
    assert (await api.send("GET", f"{path}/ping")).text == "ok"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_health_needs_no_user(api: Api, path: str) -> None:
    headers = {"Authorization": ""}
    assert (await api.send("GET", path, headers=headers)).status == 200


async def test_version(api: Api) -> None:
    version = await api.get("/version")
    assert version["gitVersion"].startswith("v1.")
    assert version["major"] == "1"


async def test_the_own_user(api: Api) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    review = await api.create(path, body)
    assert review["status"]["userInfo"]["username"]
    assert "system:authenticated" in review["status"]["userInfo"]["groups"]
