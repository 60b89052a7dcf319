"""``multiqueue notify test`` against receivers that answer in different ways."""

from __future__ import annotations

import json
import sys
from asyncio import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

Got = list[tuple[str, dict[str, Any], str]]
CONFIG = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
notifications:
  receivers:
  - {{name: program, urlFile: {folder}/good, keyFile: {folder}/key, namespaces: [research]}}
  - {{name: chat, urlFile: {folder}/good, format: Slack}}
  - {{name: closed, urlFile: {folder}/closed}}
  - {{name: lost, urlFile: {folder}/missing}}
"""


async def run(*arguments: str) -> tuple[int, str, str]:
    """The exit code, output and errors of a command."""
    process = await subprocess.create_subprocess_exec(
        sys.executable,
        "-m",
        "multiqueue",
        "notify",
        "test",
        *arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode or 0, output.decode(), errors.decode()


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def listen(got: Got) -> tuple[web.AppRunner, int]:
    async def handle(request: web.Request) -> web.Response:
        signature = request.headers.get("X-Multiqueue-Signature", "")
        got.append((request.path, await request.json(), signature))
        return web.Response(status=403 if request.path == "/closed" else 200)

    app = web.Application()
    app.router.add_post("/{path}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, runner.addresses[0][1]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(folder=tmp_path))
    (tmp_path / "key").write_text("k")
    return file


async def test_each_receiver_gets_one_and_what_came_of_it_is_told(config: Path) -> None:
    got: Got = []
    runner, port = await listen(got)
    for name in ("good", "closed"):
        write(config.parent / name, f"http://127.0.0.1:{port}/{name}")
    try:
        code, output, errors = await run("--config", str(config), "-o", "json")
    finally:
        await runner.cleanup()
    assert (code, errors) == (1, "")
    problems = {row["receiver"]: row["problem"] for row in json.loads(output)}
    missing = f"{config.parent}/missing: No such file or directory"
    assert problems == {"program": None, "chat": None, "closed": "status 403", "lost": missing}
    bodies = {
        body.get("reason", "chat"): (body, sign) for path, body, sign in got if "good" in path
    }
    program, signature = bodies["test"]
    assert (program["namespace"], program["job"]) == ("kueue-system", "test")
    assert signature.startswith("sha256=")
    text = "kueue-system: test is a test: sent by multiqueue notify test"
    assert bodies["chat"] == ({"text": text}, "")
    assert str(port) not in output, "a URL may be a secret"


async def test_a_name_that_is_no_receivers_is_refused(config: Path) -> None:
    code, _, errors = await run("--config", str(config), "--receiver", "mail")
    assert code == 2
    assert '--receiver: "mail" is not known; choose from program, chat, closed, lost' in errors


async def test_a_configuration_without_receivers_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    write(config, "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
    code, _, errors = await run("--config", str(config))
    assert code == 2
    assert "the configuration has no notifications.receivers; add one" in errors
