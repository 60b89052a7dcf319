"""ServiceAccounts: the one that every namespace has, tokens, and what ends them."""

import asyncio
import base64
import json
from typing import Any

import pytest

from tests.contract.client import PATIENCE_SECONDS, Answer, Api, expect, pod

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture
async def robot(api: Api, namespace: str) -> dict[str, Any]:
    """A ServiceAccount."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    account: dict[str, Any] = await api.create(path, {"metadata": {"name": "robot"}})
    return account


def path_of(account: dict[str, Any]) -> str:
    metadata = account["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{metadata['name']}"


async def request_token(api: Api, account: dict[str, Any], **spec: Any) -> Answer:
    return await api.send("POST", f"{path_of(account)}/token", {"spec": spec})


async def new_token(api: Api, account: dict[str, Any], **spec: Any) -> str:
    answer = await request_token(api, account, **spec)
    return str(expect(answer, 201)["status"]["token"])


async def log_in(api: Api, token: str) -> Answer:
    return await api.send("POST", SELF, {}, headers={"Authorization": f"Bearer {token}"})


async def review(api: Api, token: str, **spec: Any) -> dict[str, Any]:
    body = await api.create(REVIEW, {"spec": {"token": token, **spec}})
    status: dict[str, Any] = body["status"]
    return status


async def until_invalid(api: Api, token: str) -> dict[str, Any]:
    """Real servers remember for some seconds that a token was good."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while "authenticated" in (status := await review(api, token)):
        assert asyncio.get_running_loop().time() < deadline, status
        await asyncio.sleep(0.05)
    return status


def claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return decoded


def pod_of(account: dict[str, Any]) -> dict[str, Any]:
    body = pod("p", node="nowhere")
    body["spec"]["serviceAccountName"] = account["metadata"]["name"]
    return body


async def test_a_namespace_gets_an_account(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    answer = await api.until(path, lambda answer: answer.status == 200)
    await api.delete(path)
    uid = answer.body["metadata"]["uid"]
    await api.until(
        path, lambda answer: answer.status == 200 and answer.body["metadata"]["uid"] != uid
    )


async def test_a_token_logs_in(api: Api, robot: dict[str, Any], namespace: str) -> None:
    answer = await request_token(api, robot)
    body = expect(answer, 201)
    assert body["kind"] == "TokenRequest"
    assert body["spec"]["expirationSeconds"] == 3600
    said = claims(body["status"]["token"])
    info = (await log_in(api, body["status"]["token"])).body["status"]["userInfo"]
    assert info == {
        "username": f"system:serviceaccount:{namespace}:robot",
        "uid": robot["metadata"]["uid"],
        "groups": [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={said['jti']}"]},
    }
    assert said["exp"] - said["iat"] == 3600
    assert (said["sub"], said["aud"]) == (info["username"], body["spec"]["audiences"])


async def test_a_token_may_be_meant_for_others(api: Api, robot: dict[str, Any]) -> None:
    token = await new_token(api, robot, audiences=["a", "b"], expirationSeconds=600)
    assert (await log_in(api, token)).status == 401
    status = await review(api, token, audiences=["b", "c"])
    assert status["authenticated"]
    assert status["audiences"] == ["b"]
    assert "authenticated" not in await review(api, token, audiences=["c"])


@pytest.mark.parametrize(
    ("spec", "status", "words"),
    [
        ({"expirationSeconds": 60}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**33}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "gone"}}, 404,
         'pods "gone" not found'),
        ({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}}, 400,
         "cannot bind token to object of type /v1, Kind=ConfigMap"),
    ],
    ids=["short", "long", "bound to nothing", "bound to something else"],
)  # fmt: skip
async def test_requests_for_tokens_are_checked(
    api: Api, robot: dict[str, Any], spec: dict[str, Any], status: int, words: str
) -> None:
    answer = await request_token(api, robot, **spec)
    assert answer.status == status
    assert answer.body["message"].endswith(words)


async def test_only_accounts_that_are_there_get_tokens(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/nobody/token"
    answer = await api.send("POST", path, {"spec": {}})
    assert answer.status == 404
    assert answer.body["message"] == 'serviceaccounts "nobody" not found'


async def test_a_token_ends_with_its_account(api: Api, robot: dict[str, Any]) -> None:
    token = await new_token(api, robot)
    assert (await log_in(api, token)).status == 201
    await api.delete(path_of(robot))
    status = await until_invalid(api, token)
    assert status["error"] == '[invalid bearer token, serviceaccounts "robot" not found]'
    again = await api.create(
        f"/api/v1/namespaces/{robot['metadata']['namespace']}/serviceaccounts",
        {"metadata": {"name": "robot"}},
    )
    assert again["metadata"]["uid"] != robot["metadata"]["uid"]
    assert "authenticated" not in await review(api, token)


async def test_a_token_ends_with_the_pod_it_is_bound_to(
    api: Api, robot: dict[str, Any], pods: str
) -> None:
    made = await api.create(pods, pod_of(robot))
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": made["metadata"]["uid"]}
    token = await new_token(api, robot, boundObjectRef=reference)
    info = (await log_in(api, token)).body["status"]["userInfo"]
    assert info["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert info["extra"]["authentication.kubernetes.io/pod-uid"] == [made["metadata"]["uid"]]
    await api.delete(f"{pods}/p", gracePeriodSeconds=0)
    await api.until_gone(f"{pods}/p")
    status = await until_invalid(api, token)
    assert status["error"] == ("[invalid bearer token, service account token has been invalidated]")


async def test_a_pod_of_another_account_is_refused(
    api: Api, robot: dict[str, Any], pods: str
) -> None:
    body = pod_of(robot)
    body["spec"]["serviceAccountName"] = "other"
    await api.create(pods, body)
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    answer = await request_token(api, robot, boundObjectRef=reference)
    assert answer.status == 400
    assert answer.body["message"] == (
        'cannot bind token for serviceaccount "robot" to pod running with different '
        "serviceaccount name."
    )


async def test_a_token_that_was_changed_is_none(api: Api, robot: dict[str, Any]) -> None:
    token = await new_token(api, robot)
    head, _, tail = token.split(".")
    payload = {**claims(token), "sub": "system:serviceaccount:kube-system:admin"}
    forged = base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode()
    for wrong in (f"{head}.{forged}.{tail}", f"{token[:-4]}AAAA", f"{head}..{tail}"):
        assert (await log_in(api, wrong)).status == 401
