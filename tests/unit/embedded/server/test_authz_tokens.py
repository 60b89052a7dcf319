"""Tokens of ServiceAccounts over time and over restarts of the server."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from multiqueue.embedded.server.auth import ANONYMOUS, US, ApiUser, BadToken, TokenAuthenticator
from multiqueue.embedded.server.authz.signing import NotSigned, Signer, create_key
from multiqueue.embedded.server.authz.tokens import ACCOUNTS, ServiceAccountTokens
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.embedded.server.storage.memory import MemoryStorage
from multiqueue.embedded.server.store import ObjectStore
from tests.contract.client import Api, Cluster

ACCOUNT = {"name": "robot", "namespace": "n", "uid": "1"}
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> ServiceAccountTokens:
    store = ObjectStore(MemoryStorage(), history_length=1)
    head = {"apiVersion": "v1", "kind": "ServiceAccount"}
    store.put(ACCOUNTS, {**head, "metadata": dict(ACCOUNT)})
    return ServiceAccountTokens(store, clock, create_key())  # type: ignore[arg-type]


def issue(tokens: ServiceAccountTokens, clock: Clock) -> str:
    return tokens.issue(ACCOUNT, US, clock.now() + timedelta(minutes=10), None)


def test_a_token_is_good_until_it_expires(tokens: ServiceAccountTokens, clock: Clock) -> None:
    token = issue(tokens, clock)
    clock.time += timedelta(minutes=10, seconds=-1)
    assert tokens.log_in(token).name == "system:serviceaccount:n:robot"
    clock.time += timedelta(seconds=1)
    with pytest.raises(BadToken, match="service account token has expired"):
        tokens.log_in(token)


def test_a_token_that_was_right_once_is_compared_whole(
    tokens: ServiceAccountTokens, clock: Clock
) -> None:
    token = issue(tokens, clock)
    tokens.log_in(token)
    other = issue(tokens, clock)
    head, _, signature = token.rpartition(".")
    forged = f"{other.rpartition('.')[0]}.{signature}"
    assert forged != token
    with pytest.raises(BadToken, match="invalid bearer token"):
        tokens.log_in(forged)
    assert tokens.log_in(f"{head}.{signature}").name == "system:serviceaccount:n:robot"


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "..", "é.é.é"])
def test_other_texts_are_no_tokens(token: str) -> None:
    with pytest.raises(NotSigned):
        Signer(create_key()).read(token)


def test_another_key_signs_nothing_here() -> None:
    token = Signer(create_key()).sign({"a": 1})
    with pytest.raises(NotSigned):
        Signer(create_key()).read(token)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("Bearer one", "jane"),
        ("bearer two", "joe"),
        ("Bearer  one ", "jane"),
        ("Basic one", ANONYMOUS.name),
        ("", ANONYMOUS.name),
        ("Bearer", ANONYMOUS.name),
    ],
)
def test_a_header_is_a_user(header: str, name: str) -> None:
    known = TokenAuthenticator({"one": ApiUser("jane", ("dev",)), "two": ApiUser("joe")})
    user = known.user_of_header(header)
    assert user is not None
    assert user.name == name


def test_a_wrong_token_is_nobody() -> None:
    assert TokenAuthenticator({"one": ApiUser("jane")}).user_of_header("Bearer onf") is None


def test_who_logs_in_is_authenticated() -> None:
    user = TokenAuthenticator({"one": ApiUser("jane", ("dev",))}).verify("one").user
    assert user.groups == ("dev", "system:authenticated")


# ------------------------------------------------------------------ whole servers


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def client(server: ApiServer, session: aiohttp.ClientSession, token: str = "") -> Api:
    token = token or server.kubeconfig()["users"][0]["user"]["token"]
    cluster = Cluster(server.url, {"Authorization": f"Bearer {token}"}, None, embedded=True)
    return Api(cluster, session)


async def test_a_restart_keeps_tokens_and_policy(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    options = ServerOptions(tls=False, data_dir=tmp_path)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user"
    async with ApiServer(options) as server:
        admin = client(server, session)
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await admin.create(accounts, {"metadata": {"name": "robot"}})
        body = await admin.create(f"{accounts}/robot/token", {"spec": {}})
        await admin.merge(role, {"rules": []})
        await grant(admin, "robot")
    async with ApiServer(options) as server:
        robot = client(server, session, body["status"]["token"])
        assert (await robot.send("POST", SELF, {})).status == 201  # it was repaired
        assert (await robot.send("GET", "/api/v1/namespaces/default/pods")).status == 200
        assert (await robot.send("GET", "/api/v1/namespaces/default/secrets")).status == 403


async def grant(admin: Api, account: str) -> None:
    subject = {"kind": "ServiceAccount", "name": account}
    reference = {"kind": "ClusterRole", "name": "view"}
    body: dict[str, Any] = {
        "metadata": {"name": "view"},
        "roleRef": reference,
        "subjects": [subject],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    await admin.create(path, body)


async def test_a_role_that_is_not_to_be_touched_stays(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    options = ServerOptions(tls=False, data_dir=tmp_path)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user"
    mine = {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}
    async with ApiServer(options) as server:
        await client(server, session).merge(role, {"metadata": mine, "rules": []})
    async with ApiServer(options) as server:
        assert not (await client(server, session).get(role)).get("rules")


async def test_tokens_of_the_options_have_their_groups(session: aiohttp.ClientSession) -> None:
    options = ServerOptions(tls=False, tokens={"secret": ApiUser("jane", ("system:masters",))})
    async with ApiServer(options) as server:
        jane = client(server, session, "secret")
        assert (await jane.send("GET", "/api/v1/nodes")).status == 200
