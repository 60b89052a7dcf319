"""The Dockerfile's own steps, without Docker: what they make runs as nobody, and writes nothing."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from packaging.requirements import Requirement

from multiqueue import __version__
from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from tests.dockerfile import Builder, Image, parse

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
CONFIG = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:0"}
metrics: {bindAddress: "127.0.0.1:0"}
webhook: {host: 127.0.0.1, port: 0}
"""


@dataclass(frozen=True)
class Built:
    """An image's file system and settings, and whose process may use it."""

    builder: Builder
    image: Image
    scratch: Path
    uid: int | None

    def environment(self) -> dict[str, str]:
        values = {key: self.builder.map(v) for key, v in self.image.environment.items()}
        return {**values, "HOME": str(self.scratch), "TMPDIR": str(self.scratch)}

    async def start(self, arguments: Sequence[str]) -> asyncio.subprocess.Process:
        entry = shutil.which(self.image.entrypoint[0], path=self.environment()["PATH"])
        assert entry is not None
        identity: dict[str, Any] = {}
        if self.uid is not None:
            identity = {"user": self.uid, "group": self.uid, "extra_groups": []}
        return await asyncio.create_subprocess_exec(
            entry,
            *arguments,
            env=self.environment(),
            cwd=self.scratch,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            **identity,
        )


@contextmanager
def building() -> Iterator[Built]:
    folder = Path(tempfile.mkdtemp(prefix="multiqueue-image-"))
    folder.chmod(0o755)
    try:
        tools = folder / "tools"
        tools.mkdir()
        uid = _foreign_user()
        (tools / "python").symlink_to(_python(uid))
        # Any interpreter runs the pip that these tests were installed with.
        pip = importlib.util.find_spec("pip")
        assert pip is not None
        assert pip.origin is not None
        (tools / "pip").symlink_to(Path(pip.origin).parent)
        environment = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin", "PYTHONPATH": str(tools)}
        builder = Builder(ROOT, folder, environment)
        image = builder.build(DOCKERFILE)
        scratch = folder / "scratch"
        scratch.mkdir()
        if uid is not None:
            os.chown(scratch, uid, uid)
        _make_read_only(builder.root)
        yield Built(builder, image, scratch, uid)
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
        shutil.rmtree(folder)


def _foreign_user() -> int | None:
    """The image's user, where this process may become another; None: it stays who it is."""
    if os.geteuid() == 0:
        user = next(rest for name, rest in parse(DOCKERFILE) if name == "USER")
        return int(user.partition(":")[0])
    assert not os.environ.get("CI"), "on CI these tests run as root, to become another user"
    return None


def _python(uid: int | None) -> str:
    """An interpreter that the user may execute: root's own may lie where others cannot look."""
    base = str(Path(sys.base_prefix) / "bin" / "python3")
    candidates = [base, *filter(None, [shutil.which("python3", path="/usr/bin:/usr/local/bin")])]
    check = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
    for python in candidates:
        try:
            done = subprocess.run([python, "-c", check], user=uid, check=False, capture_output=True)
        except PermissionError:
            continue
        if done.returncode == 0:
            return python
    message = f"no Python 3.11 that user {uid} may execute: {', '.join(candidates)}"
    assert not os.environ.get("CI"), message
    pytest.skip(message)


def _make_read_only(folder: Path) -> None:
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(folder)], check=True)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.programs
@pytest.mark.timeout(300)
async def test_what_the_dockerfile_makes_runs_as_another_user_from_a_read_only_tree() -> None:
    """One test: the image is built once."""
    with building() as built:
        before = _files(built.builder.root)
        assert any(name.endswith(".pyc") for name in before)
        assert_only_what_runs_is_in(built)
        await assert_it_tells_its_version(built)
        await assert_it_becomes_ready(built)
        assert _files(built.builder.root) == before


async def assert_it_tells_its_version(built: Built) -> None:
    process = await built.start(["version"])
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    assert f"multiqueue {__version__} " in out.decode()


async def assert_it_becomes_ready(built: Built) -> None:
    async with ApiServer(ServerOptions(crds=load_crds())) as server:
        kubeconfig, config = built.scratch / "kubeconfig", built.scratch / "config.yaml"
        kubeconfig.write_text(yaml.safe_dump(server.kubeconfig()))
        config.write_text(CONFIG)
        arguments = [*built.image.command, "--log-format=json", f"--config={config}"]
        async with _running(built, [*arguments, f"--kubeconfig={kubeconfig}"]) as process:
            port = await _health_port(process)
            url = f"http://127.0.0.1:{port}/readyz"
            async with aiohttp.ClientSession() as session:
                while True:
                    async with session.get(url) as response:
                        if response.status == 200:
                            break
                    assert process.returncode is None
                    await asyncio.sleep(0.1)
    assert process.returncode == 0


@asynccontextmanager
async def _running(
    built: Built, arguments: Sequence[str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await built.start(arguments)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _health_port(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    seen = []
    async for line in process.stdout:
        seen.append(line.decode())
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if "health_port" in entry:
            return int(entry["health_port"])
    raise AssertionError("".join(seen))


def assert_only_what_runs_is_in(built: Built) -> None:
    root = built.builder.root
    assert {path.name for path in root.iterdir()} == {"opt"}
    names = {path.name.partition("-")[0] for path in root.glob("opt/multiqueue/lib/*/*-packages/*")}
    assert {"multiqueue", "multiqueue_dispatchers"} <= names
    assert not names & {"pip", "hatchling", "pytest", "tests", "hypothesis"}


def test_the_image_says_what_the_deployment_relies_on() -> None:
    last: dict[str, str] = {}
    bases = []
    for name, rest in parse(DOCKERFILE):
        last[name] = rest
        if name == "FROM":
            bases.append(rest.split()[0])
            last = {}
    deployment = next(yaml.safe_load_all((ROOT / "config/manager/manager.yaml").read_text()))
    pod = deployment["spec"]["template"]["spec"]
    security = pod["securityContext"]
    assert last["USER"] == f"{security['runAsUser']}:{security['runAsGroup']}"
    assert json.loads(last["ENTRYPOINT"]) == ["multiqueue"]
    assert json.loads(last["CMD"]) == pod["containers"][0]["args"][:1] == ["run"]
    assert "HEALTHCHECK" not in last
    assert len(set(bases)) == 1
    name, _, tag = bases[0].partition(":")
    assert name == "python"
    assert tag.count(".") == 2, "pinned to a patch release"


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-build.lock"])
def test_everything_is_pinned_with_its_hashes(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = [e for e in text.replace("\\\n", " ").splitlines() if not e.lstrip().startswith("#")]
    assert entries
    for entry in entries:
        requirement, *hashes = entry.split("--hash=sha256:")
        assert len(list(Requirement(requirement).specifier)) == 1
        assert "==" in requirement
        assert hashes
    assert "://" not in text


def test_the_pins_satisfy_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = {}
    for lock in ("requirements.lock", "requirements-build.lock"):
        for line in (ROOT / lock).read_text().splitlines():
            if "==" in line:
                requirement = Requirement(line.rstrip(" \\"))
                pinned[requirement.name.lower()] = str(requirement.specifier).removeprefix("==")
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for text in wanted:
        requirement = Requirement(text)
        version = pinned.get(requirement.name.lower())
        assert version is not None, f"{requirement.name} is not pinned: run make lock"
        assert requirement.specifier.contains(version), f"{text}, {version}: run make lock"
