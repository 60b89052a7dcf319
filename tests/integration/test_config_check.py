"""``multiqueue config check --cluster``: the certificate against what is registered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from multiqueue.api.crd import load_crds
from multiqueue.cli.main import main
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.credentials import Credentials
from tests.unit.webhooks.test_untrusted_certificates import OURS, inject, write_files
from tests.webhook_world import webhook_world

MUTATING = 'MutatingWebhookConfiguration "kueue-mutating-webhook-configuration"'


async def test_what_is_registered_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_files(tmp_path)
    kubeconfig, file, without_files = (tmp_path / name for name in ("k", "c.yaml", "d.yaml"))
    file.write_text(
        f"webhook: {{host: 127.0.0.1, certDir: {tmp_path}}}\n"
        "internalCertManagement: {enable: false}\n"
    )
    without_files.write_text("")

    async def check(path: Path) -> tuple[int, str]:
        arguments = ["config", "check", str(path), "--cluster", "--kubeconfig", str(kubeconfig)]
        code = await asyncio.to_thread(main, arguments)
        return code, capsys.readouterr().err

    async with ApiServer(ServerOptions(crds=load_crds(), tls=False)) as server:
        kubeconfig.write_text(yaml.safe_dump(server.kubeconfig()))
        code, told = await check(file)
        assert (code, told.count("is missing")) == (1, 2)
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        async with webhook_world(credentials, config) as world:
            for path in (file, without_files):
                code, told = await check(path)
                assert code == 1
                assert f"error: {MUTATING}" in told
                assert "there is no caBundle" in told
            await inject(world.client, OURS.certificate)
            await world.service.look_after_once()
            capsys.readouterr()
            assert await check(file) == (0, "")
