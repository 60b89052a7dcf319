"""Who may ask, and what anybody may ask."""

import pytest

from tests.contract.client import Api


async def test_a_wrong_token_is_unauthorized(api: Api) -> None:
    answer = await api.send("GET", "/api/v1/namespaces", headers={"Authorization": "Bearer wrong"})
    assert answer.status == answer.body["code"] == 401
    assert answer.body["reason"] == answer.body["message"] == "Unauthorized"


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Basic YTpi", "nonsense"])
async def test_who_gives_no_token_is_anonymous(anonymous: Api, authorization: str) -> None:
    headers = {"Authorization": authorization}
    answer = await anonymous.send("GET", "/api/v1/namespaces", headers=headers)
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"] == (
        'namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" '
        'in API group "" at the cluster scope'
    )


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(api: Api, path: str) -> None:
    answer = await api.send("GET", path)
    assert (answer.status, answer.text) == (200, "ok")
    verbose = await api.send("GET", path, verbose="")
    assert "[+]ping ok" in verbose.text
    assert f"{path.strip('/')} check passed" in verbose.text
    assert (await api.send("GET", f"{path}/ping")).text == "ok"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_health_needs_no_user(anonymous: Api, path: str) -> None:
    assert (await anonymous.send("GET", path)).status == 200


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
