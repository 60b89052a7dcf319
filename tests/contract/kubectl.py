"""A real kubectl for contract tests, over TLS."""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from multiqueue.embedded.server.server import ApiServer, ServerOptions
from tests.contract.client import PATIENCE_SECONDS, unique

KUBECTL = shutil.which("kubectl")


@dataclass(frozen=True)
class Outcome:
    """How a kubectl ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Kubectl:
    """Runs kubectl in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str, home: Path) -> None:
        self.namespace = namespace
        self._environment = {
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(home),
            "PATH": os.environ["PATH"],
        }

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        assert KUBECTL is not None
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            f"--namespace={self.namespace}",
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *arguments: str, stdin: Any = None) -> Outcome:
        process = await self.start(*arguments)
        text = json.dumps(stdin).encode() if stdin is not None else b""
        out, err = await asyncio.wait_for(process.communicate(text), 60)
        return Outcome(process.returncode or 0, out.decode(), err.decode())

    async def __call__(self, *arguments: str, stdin: Any = None) -> str:
        outcome = await self.run(*arguments, stdin=stdin)
        assert outcome.code == 0, outcome
        return outcome.out

    async def until(self, *arguments: str) -> str:
        """Try again until it succeeds: a real server publishes new kinds after a while."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while (outcome := await self.run(*arguments)).code:
            assert asyncio.get_running_loop().time() < deadline, outcome
            await asyncio.sleep(0.1)
        return outcome.out


@contextlib.asynccontextmanager
async def open_kubectl(home: Path) -> AsyncIterator[Kubectl]:
    """A kubectl for the server under test, in a namespace of its own."""
    if KUBECTL is None:
        if os.environ.get("CI"):
            pytest.fail("kubectl is required on CI")
        pytest.skip("no kubectl found; install it to run these tests")
    given = os.environ.get("CONTRACT_KUBECONFIG")
    if given:
        async with _in_new_namespace(Path(given), home) as kubectl:
            yield kubectl
        return
    async with ApiServer(ServerOptions()) as server:
        path = home / "kubeconfig"
        path.write_text(json.dumps(server.kubeconfig()))
        async with _in_new_namespace(path, home) as kubectl:
            yield kubectl


@contextlib.asynccontextmanager
async def _in_new_namespace(kubeconfig: Path, home: Path) -> AsyncIterator[Kubectl]:
    namespace = unique("kubectl")
    kubectl = Kubectl(kubeconfig, namespace, home)
    await kubectl("create", "namespace", namespace)
    yield kubectl
    await kubectl("delete", "namespace", namespace, "--wait=false")
