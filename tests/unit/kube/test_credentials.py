from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.kube import credential_sources
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import CredentialsError
from multiqueue.kube.kubeconfig import load_files, parse, pick_context
from tests.unit.kube.certificates import authority
from tests.unit.kube.test_tls import data, kubeconfig
from tests.virtual_time import T0, LoopClock, virtual_time

SERVER = "http://127.0.0.1:6443"
SECRET = "v3ry-s3cret"


def jwt(expires_at: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_at}).encode()).decode()
    return f"header.{claims.rstrip('=')}.signature"


@pytest.mark.parametrize(
    "user",
    [{"token": "t"}, {}, {"client-certificate-data": "", "token": "t"}],
    ids=["token", "nobody", "empty certificate"],
)
async def test_inline_data_is_read_as_the_library_reads_it(user: dict[str, Any]) -> None:
    cluster = {
        "certificate-authority-data": data(authority("ca-one").pem),
        "proxy-url": "http://p:1",
    }
    picked = pick_context(kubeconfig("https://127.0.0.1:6443", cluster, user))
    assert credential_sources.is_inline(picked)
    quick = await credential_sources.load_context(picked)
    assert quick == await credential_sources.load_with_library(picked)


def test_inline_data_needs_no_slow_import() -> None:
    program = f"""
import asyncio, sys
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
config = {kubeconfig(SERVER, {}, {"token": "t"})!r}
asyncio.run(Credentials.from_kubeconfig_dict(config))
sys.exit("kubernetes_asyncio" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("user", "want"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"username": "a", "password": "b"}, "Basic YTpi"),
        ({}, None),
    ],
    ids=["token", "password", "nobody"],
)
async def test_the_authorization_header(user: dict[str, Any], want: str | None) -> None:
    credentials = await Credentials.from_kubeconfig_dict(kubeconfig(SERVER + "/", {}, user))
    assert await credentials.authorization() == want
    assert credentials.server == SERVER


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({}, {"exec": {"command": "x", "apiVersion": "y"}}, "uses exec"),
        ({}, {"auth-provider": {"name": "gcp"}}, "uses auth-provider"),
        ({}, {"tokenFile": "/etc/passwd"}, "tokenFile"),
        ({}, {"client-certificate": "/x", "client-key": "/y"}, "client-certificate"),
        ({"certificate-authority": "/x"}, {}, "certificate-authority"),
    ],
)
async def test_a_secret_can_neither_run_programs_nor_read_files(
    cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    with pytest.raises(CredentialsError, match=words):
        await Credentials.from_kubeconfig_dict(kubeconfig(SERVER, cluster, user))


GOOD = kubeconfig(SERVER, {}, {"token": SECRET})


async def test_a_refresh_token_is_never_sent(tmp_path: Path) -> None:
    expired = jwt(1.0)
    provider = {"client-id": "c", "client-secret": "s", "idp-issuer-url": "https://127.0.0.1:1"}
    provider |= {"id-token": expired, "refresh-token": SECRET}
    user = {"auth-provider": {"name": "oidc", "config": provider}}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig(SERVER, {}, user)))
    with pytest.raises(CredentialsError, match="multiqueue never refreshes one: sign in again"):
        await Credentials.from_kubeconfig_file(path, allow_exec=True)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "no current-context"),
        ([], "not a mapping"),
        ({**GOOD, "current-context": "x"}, 'no context "x"'),
        ({**GOOD, "clusters": []}, 'no cluster "c"'),
        ({**GOOD, "clusters": None}, 'no cluster "c"'),
        ({**GOOD, "users": [{"name": "other", "user": {}}]}, 'no user "u"'),
        ({**GOOD, "users": [{"name": "u", "user": SECRET}]}, 'user "u" is not a mapping'),
        (kubeconfig("", {}, {"token": SECRET}), 'cluster "c" has no server'),
        ({**GOOD, "contexts": [{"name": "c", "context": {"user": "u"}}]}, "names no cluster"),
        (
            kubeconfig("https://h", {"certificate-authority-data": "%%%"}, {"token": SECRET}),
            "certificate-authority-data is not base64",
        ),
        (kubeconfig(SERVER, {"certificate-authority-data": " "}, {"token": SECRET}), "is empty"),
        (kubeconfig(SERVER, {"certificate-authority-data": "ä"}, {"token": SECRET}), "not base64"),
        (kubeconfig(SERVER, {"proxy-url": 1}, {"token": SECRET}), "proxy-url is not a string"),
        (kubeconfig(SERVER, {}, {"token": {"a": SECRET}}), "token is not a string"),
    ],
)
async def test_a_broken_kubeconfig_is_explained_without_its_secrets(
    config: Any, words: str
) -> None:
    with pytest.raises(CredentialsError, match=words) as caught:
        await Credentials.from_kubeconfig_dict(config)
    assert SECRET not in str(caught.value)
    assert SECRET not in str(caught.value.__cause__)


@pytest.mark.parametrize("text", ["", "[]", "just words", "a: [", "\x00"])
def test_what_is_no_kubeconfig_is_refused(text: str) -> None:
    with pytest.raises(CredentialsError, match=r"not valid YAML|not a mapping"):
        parse(text)


def test_files_are_merged_as_kubectl_does(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "sub" / "two"
    two.parent.mkdir()
    first = {**GOOD, "users": [{"name": "u", "user": {"token": "first"}}]}
    second = kubeconfig("http://second", {"certificate-authority": "ca.crt"}, {"token": "second"})
    second["clusters"][0]["name"] = "other"
    second["current-context"] = "ignored"
    one.write_text(yaml.safe_dump(first))
    two.write_text(yaml.safe_dump(second))
    merged = load_files(f"{one}:{tmp_path / 'missing'}:{two}")
    assert merged["current-context"] == "c"
    assert [u["user"]["token"] for u in merged["users"]] == ["first"]
    clusters = {c["name"]: c["cluster"] for c in merged["clusters"]}
    assert clusters["other"]["certificate-authority"] == str(two.parent / "ca.crt")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"missing.*no such file"):
        load_files(str(tmp_path / "missing"))


async def test_an_empty_ca_file_does_not_mean_the_systems_cas(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("")
    config = kubeconfig("https://h", {"certificate-authority": str(tmp_path / "ca.crt")}, {})
    with pytest.raises(CredentialsError, match="is empty"):
        await Credentials.from_kubeconfig_dict(config, allow_files=True)


async def test_a_file_is_read_again_after_a_401(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig(SERVER, {}, {"token": "old"})))
    credentials = await Credentials.from_kubeconfig_file(path)
    assert await credentials.authorization() == "Bearer old"
    assert not await credentials.renew("Bearer old")
    path.write_text(yaml.safe_dump(kubeconfig(SERVER, {}, {"token": "new"})))
    # Within the pause it is not read again, and whoever came with an older token need not.
    assert not await credentials.renew("Bearer old")
    assert await credentials.renew("Bearer ancient")


@virtual_time
async def test_many_401s_read_the_source_once(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig(SERVER, {}, {"token": "old"})))
    credentials = await Credentials.from_kubeconfig_file(path)
    path.write_text(yaml.safe_dump(kubeconfig(SERVER, {}, {"token": "new"})))
    answers = await asyncio.gather(*(credentials.renew("Bearer old") for _ in range(20)))
    assert answers == [True] * 20
    assert await credentials.authorization() == "Bearer new"


@virtual_time
async def test_a_service_account_token_is_read_again_every_minute(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(authority("ca-one").pem)
    (tmp_path / "namespace").write_text("kueue-system\n")
    environ = {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}
    credentials = await Credentials.in_cluster(directory=tmp_path, environ=environ)
    assert (credentials.server, credentials.namespace) == ("https://[::1]:443", "kueue-system")
    assert await credentials.authorization() == "Bearer first"
    (tmp_path / "token").write_text("second")
    await asyncio.sleep(30)
    assert await credentials.authorization() == "Bearer first"
    await asyncio.sleep(31)
    assert await credentials.authorization() == "Bearer second"
    (tmp_path / "token").unlink()
    await asyncio.sleep(61)
    assert await credentials.authorization() == "Bearer second"
    await asyncio.sleep(10)
    with pytest.raises(CredentialsError, match="token file"):
        await credentials.renew("Bearer second")


async def test_outside_a_pod_there_is_no_service_account(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="Service host/port"):
        await Credentials.in_cluster(directory=tmp_path, environ={"A": "b"})


@virtual_time
async def test_a_token_is_replaced_before_it_expires(tmp_path: Path) -> None:
    path, ends = tmp_path / "config", T0.timestamp() + 3600
    path.write_text(
        yaml.safe_dump(
            kubeconfig(SERVER, {"insecure-skip-tls-verify": False}, {"token": jwt(ends)})
        )
    )
    credentials = await Credentials.from_kubeconfig_file(path, clock=LoopClock())
    path.write_text(yaml.safe_dump(kubeconfig(SERVER, {}, {"token": "new"})))
    await asyncio.sleep(3600 - 130)
    assert await credentials.authorization() == f"Bearer {jwt(ends)}"
    await asyncio.sleep(20)
    assert await credentials.authorization() == "Bearer new"


def exec_user(program: str) -> dict[str, Any]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", program],
        }
    }


def exec_credential(**status: Any) -> str:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    return f"print({json.dumps(answer)!r})"


async def test_an_exec_plugin_gives_a_token_and_is_asked_again_after_a_401(tmp_path: Path) -> None:
    count = tmp_path / "count"
    ends = (T0 + timedelta(days=36500)).strftime("%Y-%m-%dT%H:%M:%SZ")
    program = f"""
import json, pathlib
path = pathlib.Path({str(count)!r})
number = int(path.read_text()) + 1 if path.exists() else 1
path.write_text(str(number))
status = {{"token": f"t{{number}}", "expirationTimestamp": {ends!r}}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                   "status": status}}))
"""
    config = kubeconfig(SERVER, {}, exec_user(program))
    credentials = await Credentials.from_kubeconfig_dict(config, allow_exec=True)
    assert await credentials.authorization() == "Bearer t1"
    assert await credentials.renew("Bearer t1")
    assert await credentials.authorization() == "Bearer t2"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit('no login')", "process returned 1. no login"),
        ("print('not json')", "failed to decode process output"),
        (exec_credential(), "gave no token"),
    ],
)
async def test_an_exec_plugin_that_fails_is_explained(program: str, words: str) -> None:
    config = kubeconfig(SERVER, {}, exec_user(program))
    with pytest.raises(CredentialsError, match=words):
        await Credentials.from_kubeconfig_dict(config, allow_exec=True)


@pytest.mark.parametrize(
    ("server", "environ", "want"),
    [
        ("https://10.0.0.1", {"https_proxy": "http://proxy:3128"}, "http://proxy:3128"),
        ("https://10.0.0.1", {"http_proxy": "http://proxy:3128"}, None),
        ("https://k8s.local", {"https_proxy": "http://p:1", "no_proxy": ".local"}, None),
        ("https://127.0.0.1:6443", {"https_proxy": "http://proxy:3128"}, None),
        ("https://localhost:6443", {"https_proxy": "http://proxy:3128"}, None),
    ],
)
def test_the_proxy_of_the_environment(
    server: str, environ: dict[str, str], want: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert Credentials.static(server).proxy == want


def test_credentials_do_not_show_what_they_hold() -> None:
    credentials = Credentials.static(SERVER, token=SECRET)
    assert SECRET not in repr(credentials)
    assert SECRET not in repr(credentials.material)
