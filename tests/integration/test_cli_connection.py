"""kubectl's flags for the connection, against an API server that checks them."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.cli.main import main
from tests.integration.test_cli_commands import queue_cluster

LIST = ("list", "cq", "-o", "name")
GPUS = "clusterqueue.kueue.x-k8s.io/gpus\n"


class Outside:
    """Runs commands without a kubeconfig, with the address and the token of one."""

    def __init__(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        config: Any = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.server = ("--server", cluster["server"])
        self.ca = base64.b64decode(cluster["certificate-authority-data"])
        self.token = ("--token", config["users"][0]["user"]["token"])
        self._capsys = capsys

    async def run(self, *flags: str) -> tuple[int, str]:
        """Return the exit code, and what was printed on both outputs."""
        self._capsys.readouterr()
        code = await asyncio.to_thread(main, [*LIST, *flags])
        said = self._capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out + said.err


async def test_flags_replace_the_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with queue_cluster(tmp_path, capsys):
        outside = Outside(tmp_path / "kubeconfig", capsys)
        monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        known = (*outside.server, "--certificate-authority", str(tmp_path / "ca.crt"))
        (tmp_path / "ca.crt").write_bytes(outside.ca)
        assert await outside.run(*known, *outside.token) == (0, GPUS)
        unverified = (*outside.server, "--insecure-skip-tls-verify", *outside.token)
        assert await outside.run(*unverified) == (0, GPUS)
        code, said = await outside.run(*outside.server, *outside.token)
        assert (code, "certificate" in said) == (3, True)
        code, said = await outside.run(*known, "--token", "wrong")
        assert (code, "does not accept --token (401 Unauthorized)" in said) == (3, True)
        code, said = await outside.run(*outside.token)
        assert (code, "--token: pass --kubeconfig FILE or --server URL too" in said) == (2, True)


async def test_flags_change_the_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys):
        outside = Outside(tmp_path / "kubeconfig", capsys)
        here = ("--kubeconfig", str(tmp_path / "kubeconfig"))
        assert await outside.run(*here, "--request-timeout=30s") == (0, GPUS)
        code, said = await outside.run(*here, "--token", "wrong")
        assert (code, "does not accept --token (401 Unauthorized)" in said) == (3, True)
        assert (await outside.run(*here, "-s", "http://127.0.0.1:1"))[0] == 3


async def test_who_acts_as_somebody_has_the_rights_of_that_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys):
        outside = Outside(tmp_path / "kubeconfig", capsys)
        here = ("--kubeconfig", str(tmp_path / "kubeconfig"))
        code, said = await outside.run(*here, "--as", "nobody")
        assert code == 1
        assert 'User "nobody" cannot list resource "clusterqueues"' in said
        as_master = ("--as", "nobody", "--as-group", "others", "--as-group", "system:masters")
        assert await outside.run(*here, *as_master) == (0, GPUS)
        code, said = await outside.run(*here, "--as-group", "system:masters")
        assert (code, "name the user with --as too" in said) == (2, True)


async def test_a_kubeconfig_that_acts_as_somebody_does_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys):
        outside = Outside(tmp_path / "kubeconfig", capsys)
        config: Any = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        config["users"][0]["user"]["as"] = "nobody"
        (tmp_path / "acting").write_text(yaml.safe_dump(config))
        code, said = await outside.run("--kubeconfig", str(tmp_path / "acting"))
    assert code == 1
    assert 'User "nobody" cannot list resource "clusterqueues"' in said
