"""Kubeconfigs that a worker's owner writes (rows 1, 2, 3 and 9)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from tests.abuse.fleet import Fleet, Object

DEEP = b"x: " + b"[" * 100_000 + b"]"
"""Of 100 KB: libyaml runs out of stack."""
EXPANDING = b"a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 10)
)
"""Of 600 bytes: nine times as much with every line."""
NAMED = EXPANDING + b"users: [{name: *a9, user: {tokenFile: /etc/passwd}}]\n"
MERGED = b"a0: &a0 {k: v}\n" + b"".join(
    b"a%d: &a%d {<<: [%s]}\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 10)
)


def leading_to(server: object, **cluster: object) -> Object:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }


def written(server: str) -> bytes:
    """Write a server as it stands, without quotes."""
    return yaml.safe_dump(leading_to("SERVER")).replace("SERVER", server).encode()


BAD_SERVERS = {
    "a port beyond all": (leading_to("https://127.0.0.1:99999999"), "no number from 1 to 65535"),
    "a port of letters": (leading_to("https://127.0.0.1:abc"), "no number from 1 to 65535"),
    "a port below zero": (leading_to("https://127.0.0.1:-1"), "no number from 1 to 65535"),
    "a date": (written("2026-01-01"), "does not begin with https://"),
    "no date": (written("2026-99-99"), "does not begin with https://"),
    "an integer of 5,000 digits": (written("9" * 5_000), "more than 400 digits"),
    "a list": (leading_to(["https://a"]), "is not a string"),
}
HEAVY = {
    "deep nesting": (DEEP, "nested more than 50 levels"),
    "references in a name": (NAMED, "excessive aliasing"),
    "merged references": (MERGED, "excessive aliasing"),
}
ELSEWHERE = {
    "http": (leading_to("http://127.0.0.1:1"), "does not begin with https://"),
    "ftp": (leading_to("ftp://127.0.0.1:1"), "does not begin with https://"),
    "no scheme": (leading_to("//127.0.0.1:1"), "does not begin with https://"),
    "a proxy": (
        leading_to("https://10.0.0.1", **{"proxy-url": "http://127.0.0.1:1"}),
        "multiKueue.allowedProxies",
    ),
}
ALL = {**BAD_SERVERS, **HEAVY, **ELSEWHERE}


async def assert_refused(fleet: Fleet, worker: str, words: str) -> None:
    refusal = await fleet.refusal(worker)
    assert refusal["reason"] == "InsecureKubeConfig"
    assert words in refusal["message"]
    assert "Error" not in refusal["message"]


async def test_garbage_is_refused_with_a_reason(fleet: Fleet) -> None:
    async with fleet.registered(b"\xff\xfe: [") as worker:
        refusal = await fleet.refusal(worker)
        assert "not valid YAML" in refusal["message"]


@pytest.mark.parametrize(("kubeconfig", "words"), ALL.values(), ids=ALL)
async def test_what_would_hurt_is_refused_with_a_reason(
    fleet: Fleet, kubeconfig: bytes | Object, words: str
) -> None:
    async with fleet.registered(kubeconfig) as worker:
        await assert_refused(fleet, worker, words)


async def test_a_manager_starts_beside_all_of_them(fleet: Fleet) -> None:
    async with AsyncExitStack() as stack:
        workers = {
            await stack.enter_async_context(fleet.registered(kubeconfig)): words
            for kubeconfig, words in ALL.values()
        }
        await fleet.restart()
        for worker, words in workers.items():
            await assert_refused(fleet, worker, words)
        await fleet.assert_unharmed()


async def test_garbage_in_the_place_of_a_kubeconfig_in_use_harms_nobody_else(fleet: Fleet) -> None:
    async with fleet.registered(leading_to("https://127.0.0.1:1")) as worker:
        await fleet.refusal(worker)
        await fleet.write_kubeconfig(worker, DEEP)
        await fleet.assert_unharmed()


async def test_verify_and_config_check_name_them_before_they_hurt(
    fleet: Fleet, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("kind: Configuration\n")
    for kubeconfig, words in (*BAD_SERVERS.values(), *HEAVY.values(), *ELSEWHERE.values()):
        text = yaml.safe_dump(kubeconfig).encode() if isinstance(kubeconfig, dict) else kubeconfig
        (tmp_path / "worker").write_bytes(text)
        checked = ("config", "check", str(config), "--worker-kubeconfig", str(tmp_path / "worker"))
        code, output = await fleet.cli(*checked)
        assert (code, words in output, "Traceback" in output) == (1, True, False)
    async with fleet.registered(DEEP) as worker:
        code, output = await fleet.cli("clusters", "verify", worker)
        assert (code, "nested more than 50 levels" in output) == (2, True)
