"""A fleet to attack: three embedded clusters in one process, and the manager in another."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from multiqueue.api.names import DEFAULT_NAMESPACE
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import AlreadyExists, ServerError
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS, SECRETS, Resource
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from tests.integration.waiting import condition, is_true, until_one
from tests.processes import running, wait_for_text

MANAGER, WORKERS = "manager", ("worker-a100", "worker-h100")
BYSTANDER = "inference"
"""The team whose jobs must run whatever the others do; tests attack as `research` or `training`."""
READY_SECONDS = 30.0
POLL_SECONDS = 0.1  # another process does not tell when it is ready

Object = dict[str, Any]
_numbers = itertools.count(1)


@dataclass(slots=True)
class Manager:
    """The manager's program; tests may stop, kill and restart it."""

    command: list[str]
    health_url: str
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    restarts: int = -1
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program, whose log goes on in the same file."""
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self.command,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
            )
        self.restarts += 1

    def stop(self) -> None:
        """End the program in peace, or kill it if it does not end."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)

    async def restart(self) -> None:
        """End the program, start it anew, and wait until it is ready."""
        await asyncio.to_thread(self.stop)
        self.start()
        await self.until_ready()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def pid(self) -> int:
        """Of the program."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the program has not ended."""
        return self._process is not None and self._process.poll() is None

    async def until_ready(self, *, seconds: float = READY_SECONDS) -> None:
        """Wait until the program is live and ready."""
        problem = "not asked"
        async with aiohttp.ClientSession() as session:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while self.is_running:
                        problem = await self._ask(session)
                        if not problem:
                            return
                        await asyncio.sleep(POLL_SECONDS)
        state = "it runs" if self.is_running else "it ended"
        raise AssertionError(f"the manager is not ready: {problem} ({state})\n{self.read_log()}")

    async def _ask(self, session: aiohttp.ClientSession) -> str:
        """Return what is wrong, or nothing."""
        for path in ("/healthz", "/readyz"):
            try:
                async with session.get(f"{self.health_url}{path}?verbose") as answer:
                    if answer.status != HTTPStatus.OK:
                        return await answer.text()
            except aiohttp.ClientError as error:
                return str(error)
        return ""

    async def component_restarts(self) -> dict[str, float]:
        """Return how often each component was started again, from the metrics."""
        port = re.findall(r'"metrics_port":(\d+)', self.log.read_text(errors="replace"))[-1]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            text = await answer.text()
        assert "multiqueue_component_restarts_total" in text
        found = re.findall(r'multiqueue_component_restarts_total{component="(.*)"} (.*)', text)
        return {component: float(count) for component, count in found if float(count)}

    def read_log(self) -> str:
        """Return what the program has printed, or the end of it."""
        return self.log.read_text(errors="replace")[-200_000:]

    def resident_bytes(self) -> int:
        """Return the memory that the program holds now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Fleet:
    """A manager and two workers, as their administrators see them."""

    folder: Path
    program: Manager
    clients: Mapping[str, KubeClient]

    @property
    def manager(self) -> KubeClient:
        """The administrator's client of the manager cluster."""
        return self.clients[MANAGER]

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig of the manager cluster."""
        return self.folder / f"{MANAGER}.kubeconfig"

    def unused(self, prefix: str) -> str:
        """Return a name that no object of this fleet has."""
        return f"{prefix}-{next(_numbers)}"

    @contextlib.asynccontextmanager
    async def registered(self, kubeconfig: str | bytes | Object) -> AsyncIterator[str]:
        """Register a worker by this kubeconfig for the length of the block; answers its name."""
        name = self.unused("attacker")
        await self.write_kubeconfig(name, kubeconfig)
        source = {"kubeConfig": {"locationType": "Secret", "location": name}}
        cluster = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "MultiKueueCluster",
            "metadata": {"name": name},
            "spec": {"clusterSource": source},
        }
        await self.manager.create(MULTIKUEUE_CLUSTERS, cluster)
        try:
            yield name
        finally:
            await self.manager.delete(MULTIKUEUE_CLUSTERS, name)
            await self.manager.delete(SECRETS, name, namespace=DEFAULT_NAMESPACE)

    async def write_kubeconfig(self, name: str, kubeconfig: str | bytes | Object) -> None:
        """Create or replace the Secret of a worker, such as "worker-a100-kubeconfig"."""
        if isinstance(kubeconfig, dict):
            kubeconfig = yaml.safe_dump(kubeconfig)
        if isinstance(kubeconfig, str):
            kubeconfig = kubeconfig.encode()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": DEFAULT_NAMESPACE},
            "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
        }
        try:
            await self.manager.create(SECRETS, secret, namespace=DEFAULT_NAMESPACE)
        except AlreadyExists:
            patch = {"data": secret["data"]}
            await self.manager.patch(SECRETS, name, patch, namespace=DEFAULT_NAMESPACE)

    async def refusal(
        self, name: str, *, resource: Resource = MULTIKUEUE_CLUSTERS, seconds: float = 30.0
    ) -> Object:
        """Return the condition Active of a worker, or of something else, once it is False."""
        found = await until_one(
            self.manager,
            resource,
            name,
            lambda obj: condition(obj, "Active").get("status") == "False",
            seconds=seconds,
        )
        return condition(found, "Active")

    async def cli(self, *arguments: str) -> tuple[int, str]:
        """Run `multiqueue` against the manager cluster; answers exit code and all output."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "multiqueue",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "NO_COLOR": "1"},
        )
        output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode(errors="replace")

    async def restart(self) -> None:
        """End the manager, start it anew, and wait until jobs can be created."""
        await self.program.restart()
        await self.until_jobs_are_taken()

    async def until_jobs_are_taken(self) -> None:
        """Wait until the webhooks are asked again: ready is a standby, too, which leads later."""
        job = DemoJob(team=BYSTANDER, name="probe", pods=1, gpus_each=1, run_seconds=0.2)
        async with asyncio.timeout(READY_SECONDS):
            while True:
                try:
                    await self.manager.create(
                        JOBS, build_job(job), namespace=BYSTANDER, dry_run=True
                    )
                except ServerError:
                    await asyncio.sleep(POLL_SECONDS)
                else:
                    return

    async def run_job(self, *, team: str = BYSTANDER, seconds: float = 60.0) -> None:
        """Run a short job of a team from its creation to its end on a worker."""
        name = self.unused("bystander")
        job = DemoJob(team=team, name=name, pods=1, gpus_each=1, run_seconds=0.2)
        await self.manager.create(JOBS, build_job(job), namespace=team)
        try:
            await until_one(
                self.manager,
                JOBS,
                name,
                lambda obj: is_true(obj, "Complete"),
                namespace=team,
                seconds=seconds,
            )
        finally:
            await self.manager.delete(JOBS, name, namespace=team, propagation="Background")

    async def assert_unharmed(self) -> None:
        """The manager is live and ready, and jobs of others run and finish."""
        assert self.program.is_running, f"the manager ended\n{self.program.read_log()}"
        await self.program.until_ready()
        await self.run_job()


@contextlib.contextmanager
def running_clusters(folder: Path) -> Iterator[Manager]:
    """Run the clusters; the manager, which does not run yet, is the caller's to start."""
    arguments = ("demo", "--serve", "--data", str(folder), "-o", "json")
    log = folder / "clusters.log"
    with running(*arguments, log=log) as process:
        wait_for_text(process, log, r'"kubeconfigs"[^$]*\n}')
        text = log.read_text()
        paths = json.loads(text[text.index("{\n") : text.rindex("}") + 1])
        with contextlib.suppress(ProcessLookupError):  # on a busy machine it may lose its Lease
            os.kill(paths["manager"]["pid"], signal.SIGTERM)
        wait_for_text(process, log, "The manager ended")
        configuration = yaml.safe_load((folder / "manager-config.yaml").read_text())
        address = configuration["health"]["healthProbeBindAddress"]
        manager = Manager(paths["manager"]["command"], f"http://{address}", folder / "program.log")
        try:
            yield manager
        finally:
            manager.stop()


@contextlib.asynccontextmanager
async def connect(folder: Path, program: Manager) -> AsyncIterator[Fleet]:
    """Connect as the administrator of each cluster."""
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for name in (MANAGER, *WORKERS):
            credentials = await Credentials.from_kubeconfig_file(folder / f"{name}.kubeconfig")
            clients[name] = await stack.enter_async_context(KubeClient(credentials))
        yield Fleet(folder, program, clients)
