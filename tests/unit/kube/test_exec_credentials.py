"""Programs that give credentials: what they may print, and what becomes of their failures."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from datetime import UTC, datetime

import pytest

from multiqueue.kube.errors import CredentialsError
from multiqueue.kube.exec_credentials import (
    Endpoint,
    ExecPlugin,
    build_material,
    run_plugin,
)

V1 = "client.authentication.k8s.io/v1"
PLUGIN = ExecPlugin(command="plugin")
ENDPOINT = Endpoint(server="https://worker", ca=b"ca", server_name="name", proxy="http://proxy")


def answer(version: str = V1, **status: object) -> bytes:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}).encode()


def python(code: str, **options: object) -> ExecPlugin:
    return ExecPlugin(command=sys.executable, args=("-c", code), **options)


def test_a_token_is_taken_with_its_end():
    got = build_material(
        answer(token="t", expirationTimestamp="2026-01-01T00:00:00Z"), PLUGIN, ENDPOINT
    )
    assert (got.authorization, got.expires_at) == ("Bearer t", datetime(2026, 1, 1, tzinfo=UTC))
    assert (got.server, got.ca, got.server_name, got.proxy) == (
        "https://worker",
        b"ca",
        "name",
        "http://proxy",
    )


def test_a_certificate_is_taken_with_its_key():
    got = build_material(
        answer(clientCertificateData="cert", clientKeyData="key"), PLUGIN, ENDPOINT
    )
    assert (got.client_certificate, got.client_key, got.authorization) == (b"cert", b"key", None)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (b"not json: secret", "printed no ExecCredential"),
        (b"[]", "printed no ExecCredential"),
        (answer(), "neither a token nor a certificate"),
        (answer(clientCertificateData="cert"), "neither a token nor a certificate"),
        (answer("client.authentication.k8s.io/v9", token="t"), "answers in another version"),
        (answer(token="t", expirationTimestamp="soon"), "printed no ExecCredential"),
    ],
)
def test_what_is_no_credential_is_named_and_not_repeated(output, words):
    with pytest.raises(CredentialsError, match=words) as caught:
        build_material(output, PLUGIN, ENDPOINT)
    assert "secret" not in str(caught.value)


async def test_a_program_is_told_of_the_cluster_and_gets_its_variables():
    code = "import os; print(os.environ['KUBERNETES_EXEC_INFO'] + os.environ['MORE'])"
    got = await run_plugin(python(code, env=(("MORE", "!"),), cluster={"server": "https://w"}))
    told, mark, _ = got.decode().partition("!")
    assert (json.loads(told)["spec"], mark) == (
        {"interactive": False, "cluster": {"server": "https://w"}},
        "!",
    )


async def test_a_program_that_is_missing_is_named_with_its_hint():
    plugin = ExecPlugin(command="/nowhere/plugin", install_hint="install it")
    with pytest.raises(CredentialsError, match=r"cannot be run: No such file.*; install it"):
        await run_plugin(plugin)


async def test_a_program_that_fails_is_named():
    with pytest.raises(CredentialsError, match="failed with exit status 3"):
        await run_plugin(python("raise SystemExit(3)"))


async def test_a_program_that_prints_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch):
    read = asyncio.StreamReader.read

    async def read_slowly(stream: asyncio.StreamReader, count: int) -> bytes:
        await asyncio.sleep(0.01)
        return await read(stream, count)

    monkeypatch.setattr(asyncio.StreamReader, "read", read_slowly)
    with pytest.raises(CredentialsError, match="printed too much"):
        await run_plugin(python("while True: print('x' * 100000)"))
    gc.collect()  # which warns of what was left open
