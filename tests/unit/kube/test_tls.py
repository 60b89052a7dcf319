from __future__ import annotations

import base64
import gc
import tempfile
from asyncio.sslproto import SSLProtocol
from pathlib import Path
from typing import Any

import pytest

from multiqueue.kube import errors
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import PODS
from multiqueue.kube.tls import READ_BYTES
from tests.unit.kube.certificates import Pair, authority, server_context
from tests.unit.kube.scripted_server import ScriptedServer, json_answer

OK = json_answer({"ok": 1})


def kubeconfig(server: str, cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


async def ask(credentials: Credentials) -> Any:
    async with KubeClient(credentials, default_timeout=10) as client:
        return await client.get(PODS, "a", namespace="n")


async def test_a_server_is_trusted_by_the_ca_of_its_kubeconfig(tmp_path: Path) -> None:
    ca = authority("ca-one")
    context = server_context(ca.issue("server", "127.0.0.1"), tmp_path)
    async with ScriptedServer(OK, ssl_context=context) as server:
        config = kubeconfig(
            server.url, {"certificate-authority-data": data(ca.pem)}, {"token": "t"}
        )
        assert await ask(await Credentials.from_kubeconfig_dict(config)) == {"ok": 1}
    assert server.seen[0].headers["Authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("hosts", "trusted", "words"),
    [
        (("127.0.0.1",), "ca-two", "certificate verify failed"),
        (("elsewhere.example",), "ca-one", "IP address mismatch"),
    ],
    ids=["signed by another CA", "made for another host"],
)
async def test_a_server_that_is_not_who_it_should_be_gets_nothing(
    tmp_path: Path, hosts: tuple[str, ...], trusted: str, words: str
) -> None:
    context = server_context(authority("ca-one").issue("server", *hosts), tmp_path)
    async with ScriptedServer(OK, ssl_context=context) as server:
        credentials = Credentials.static(server.url, token="t", ca=authority(trusted).pem)
        with pytest.raises(errors.TlsError, match=words) as caught:
            await ask(credentials)
    assert not caught.value.retryable
    assert not server.seen


async def test_a_connection_keeps_a_small_buffer_and_reads_large_answers(tmp_path: Path) -> None:
    ca = authority("ca-one")
    context = server_context(ca.issue("server", "127.0.0.1"), tmp_path)
    large = json_answer({"text": "x" * 2**20})
    async with ScriptedServer(large, ssl_context=context) as server:
        credentials = Credentials.static(server.url, token="t", ca=ca.pem)
        async with KubeClient(credentials, default_timeout=10) as client:
            answer = await client.get(PODS, "a", namespace="n")
            connections = [each for each in gc.get_objects() if isinstance(each, SSLProtocol)]
            buffers = [
                len(held)
                for each in connections
                for held in vars(each).values()
                if isinstance(held, bytearray)
            ]
    assert len(answer["text"]) == 2**20
    assert connections
    assert max(buffers) == READ_BYTES


async def test_the_name_to_expect_may_differ_from_the_host(tmp_path: Path) -> None:
    ca = authority("ca-one")
    context = server_context(ca.issue("api.worker.example"), tmp_path)
    async with ScriptedServer(OK, ssl_context=context) as server:
        cluster = {
            "certificate-authority-data": data(ca.pem),
            "tls-server-name": "api.worker.example",
        }
        config = kubeconfig(server.url, cluster, {"token": "t"})
        assert await ask(await Credentials.from_kubeconfig_dict(config)) == {"ok": 1}


async def test_a_client_certificate_identifies_us_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, client = authority("ca-one"), authority("ca-clients").issue("someone")
    context = server_context(
        ca.issue("server", "127.0.0.1"), tmp_path, clients_of=authority("ca-clients")
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    user = {
        "client-certificate-data": data(client.certificate),
        "client-key-data": data(client.key),
    }
    async with ScriptedServer(OK, ssl_context=context) as server:
        config = kubeconfig(server.url, {"certificate-authority-data": data(ca.pem)}, user)
        credentials = await Credentials.from_kubeconfig_dict(config)
        assert list(temporary.iterdir()) == []
        assert await ask(credentials) == {"ok": 1}
        with pytest.raises(errors.TransportError):
            await ask(Credentials.static(server.url, ca=ca.pem))


async def test_a_file_that_was_rotated_is_used_without_a_restart(tmp_path: Path) -> None:
    """The old client certificate is not accepted any more; a 401 makes us read the new one."""
    ca = authority("ca-one")
    context = server_context(ca.issue("server", "127.0.0.1"), tmp_path)
    token, ca_file = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("old")
    ca_file.write_bytes(ca.pem)

    async def answer(request: Any) -> Any:
        from tests.unit.kube.scripted_server import status

        good = request.headers["Authorization"] == "Bearer new"
        return await (OK if good else status(401, "Unauthorized"))(request)

    async with ScriptedServer(answer, ssl_context=context) as server:
        config = kubeconfig(
            server.url, {"certificate-authority": str(ca_file)}, {"tokenFile": str(token)}
        )
        credentials = await Credentials.from_kubeconfig_dict(config, allow_files=True)
        before = credentials.ssl_context
        token.write_text("new\n")
        ca_file.write_bytes(ca.pem + authority("ca-two").pem)
        assert await ask(credentials) == {"ok": 1}
    assert [s.headers["Authorization"] for s in server.seen] == ["Bearer old", "Bearer new"]
    assert credentials.ssl_context is not before


@pytest.mark.parametrize(
    ("ca", "pair"),
    [
        (b"no pem", None),
        (None, Pair(b"no pem", b"no key")),
        (None, Pair(authority("ca-one").pem, b"")),
    ],
    ids=["CA", "certificate", "missing key"],
)
def test_what_is_no_pem_is_refused_when_loaded(ca: bytes | None, pair: Pair | None) -> None:
    with pytest.raises(errors.CredentialsError, match="not usable PEM"):
        Credentials.static(
            "https://127.0.0.1:1",
            ca=ca,
            client_certificate=pair and pair.certificate,
            client_key=pair and pair.key,
        )
