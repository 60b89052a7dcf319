"""A leader that is stopped with SIGSTOP while it dispatches jobs, and goes on once another leads.

Two real managers reach all clusters through gates that note who writes what. The simulated fleet
stops managers at every write (`tests/fleet/test_stopped.py`); this is the same for real processes,
sockets and clocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from multiqueue.kube.client import KubeClient
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import JOBS, LOCAL_QUEUES, PODS
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from multiqueue.serving.free_ports import find_free_ports
from tests.abuse.fleet import MANAGER, WORKERS, Fleet, Manager, Object
from tests.integration.waiting import is_true, until_one
from tests.tcp_gate import Gate, gate_to

TEAM = "research"
COUNT = 6
"""Jobs of one GPU that come at once; all of them fit."""
WRITE = re.compile(rb"(?:^|\r\n|\})(POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n")
MOMENTS = {
    "copies are made": (WORKERS, "POST .*/workloads"),
    "jobs are created": (WORKERS, "POST .*/jobs"),
}
"""When the leader is stopped: at its next write of this kind."""


@dataclass(frozen=True, slots=True)
class Write:
    """One request of a manager that changes something."""

    pid: int
    cluster: str
    what: str


@dataclass(slots=True)
class Watched:
    """Notes each write of the managers, and stops one of them at a write.

    Attributes:
        managers: The managers that are told apart.
        gates: The port of the gate to each cluster.
        writes: What they wrote, in order.
        stop_at: The process to stop, the clusters, and what it writes there.
        stopped: Set once it was stopped.
    """

    managers: list[Manager] = field(default_factory=list)
    gates: dict[str, int] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    stop_at: tuple[int, tuple[str, ...], str] | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _pids: dict[tuple[str, int], int] = field(default_factory=dict)

    def read(self, cluster: str, port: int, data: bytes) -> None:
        """Take in what somebody sent to a cluster."""
        for method, path in WRITE.findall(data):
            if (cluster, port) not in self._pids:
                pids = [each.pid for each in self.managers if each.is_running]
                self._pids[cluster, port] = find_owner((port, self.gates[cluster]), pids)
            pid, what = self._pids[cluster, port], f"{method.decode()} {path.decode()}"
            if "/leases/" in what or "/events" in what:
                continue
            self.writes.append(Write(pid, cluster, what))
            if self.stop_at is not None:
                self._stop(pid, cluster, what)

    def _stop(self, pid: int, cluster: str, what: str) -> None:
        assert self.stop_at is not None
        leader, clusters, pattern = self.stop_at
        if pid == leader and cluster in clusters and re.match(pattern, what):
            os.kill(pid, signal.SIGSTOP)
            self.stop_at = None
            self.stopped.set()


def find_owner(ends: tuple[int, int], pids: list[int]) -> int:
    """Return which of these processes connects from the first port to the second; 0: none."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {
        f"socket:[{row[9]}]"
        for row in rows
        if tuple(int(end.split(":")[1], 16) for end in row[1:3]) == ends
    }
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(link.readlink()) in inodes:
                    return pid
    return 0


@dataclass(slots=True)
class TwoManagers:
    """Two managers that compete, and what they write.

    Attributes:
        fleet: Whose manager they replace.
        kubeconfig: Leads to the manager's cluster through a gate.
        watched: Their writes.
    """

    fleet: Fleet
    kubeconfig: Path
    watched: Watched = field(default_factory=Watched)
    number: int = 0

    async def start(self) -> None:
        """Start one more manager, with a port and a log of its own."""
        folder, program = self.fleet.folder, self.fleet.program
        self.number += 1
        configuration = yaml.safe_load((folder / "manager-config.yaml").read_text())
        address = f"127.0.0.1:{find_free_ports(1)[0]}"
        configuration["health"]["healthProbeBindAddress"] = address
        path = folder / f"manager-{self.number}.yaml"
        path.write_text(yaml.safe_dump(configuration))
        places = {
            str(folder / "manager-config.yaml"): str(path),
            str(self.fleet.kubeconfig): str(self.kubeconfig),
        }
        command = [places.get(each, each) for each in program.command]
        manager = Manager(command, f"http://{address}", path.with_suffix(".log"))
        self.watched.managers.append(manager)
        manager.start()
        await manager.until_ready(seconds=60)

    async def find_leader(self, *, but: Manager | None = None) -> Manager:
        """Wait until a manager leads and takes jobs; not this one."""
        async with asyncio.timeout(60):
            while True:
                for manager in self.watched.managers:
                    is_other = manager is not but and manager.is_running
                    if is_other and "became leader" in manager.read_log():
                        await self.fleet.until_jobs_are_taken()
                        return manager
                await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def two_managers(fleet: Fleet) -> AsyncIterator[TwoManagers]:
    """Replace the manager by two, and their ways to all clusters by gates."""
    kubeconfig = fleet.folder / "watched.kubeconfig"
    both = TwoManagers(fleet, kubeconfig)
    before = {name: (fleet.folder / f"{name}.kubeconfig").read_text() for name in WORKERS}
    async with contextlib.AsyncExitStack() as stack:
        await asyncio.to_thread(fleet.program.stop)
        for name in WORKERS:
            through = await open_gate(fleet, both.watched, name, stack)
            await fleet.write_kubeconfig(f"{name}-kubeconfig", through)
        kubeconfig.write_text(await open_gate(fleet, both.watched, MANAGER, stack))
        try:
            await both.start()
            await both.start()
            yield both
        finally:
            for manager in both.watched.managers:
                await asyncio.to_thread(manager.stop)
            for name, text in before.items():
                await fleet.write_kubeconfig(f"{name}-kubeconfig", text)
            await fleet.restart()


async def open_gate(
    fleet: Fleet, watched: Watched, name: str, stack: contextlib.AsyncExitStack
) -> str:
    """Return a kubeconfig of a cluster that leads through a gate."""
    kubeconfig = yaml.safe_load((fleet.folder / f"{name}.kubeconfig").read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]
    gate: Gate = await stack.enter_async_context(
        gate_to(cluster["server"], partial(watched.read, name))
    )
    watched.gates[name] = urlsplit(gate.url).port or 0
    cluster.update(gate.cluster)
    return yaml.safe_dump(kubeconfig)


async def count_pods(client: KubeClient, seen: dict[str, set[str]]) -> None:
    """Note the uid of each pod that a worker ever has, by its job; until cancelled."""

    def note(_: Object | None, new: Object | None) -> None:
        if new is not None:
            job = new["metadata"]["labels"]["job-name"]
            seen.setdefault(job, set()).add(new["metadata"]["uid"])

    pods: Informer[Object] = Informer(client, PODS, namespace=TEAM)
    pods.add_handler(note)
    await pods.run()


@contextlib.asynccontextmanager
async def held_jobs(fleet: Fleet) -> AsyncIterator[list[str]]:
    """Create some jobs, all of which come to be dispatched once the block ends; their names."""
    jobs = [
        DemoJob(team=TEAM, name=fleet.unused("stopped"), pods=1, gpus_each=1, run_seconds=0.5)
        for _ in range(COUNT)
    ]
    await hold(fleet, "Hold")
    for job in jobs:
        await fleet.manager.create(JOBS, build_job(job), namespace=TEAM)
    yield [job.name for job in jobs]
    await hold(fleet, "None")


async def hold(fleet: Fleet, policy: str) -> None:
    """Stop or release the queue: whoever is stopped meanwhile answers no webhooks."""
    patch = {"spec": {"stopPolicy": policy}}
    await fleet.manager.patch(LOCAL_QUEUES, TEAM, patch, namespace=TEAM)


@pytest.mark.timeout(600)
async def test_it_writes_nothing_more_and_no_job_runs_twice(fleet: Fleet) -> None:
    pods: dict[str, set[str]] = {}
    async with two_managers(fleet) as both, asyncio.TaskGroup() as tasks:
        counts = [tasks.create_task(count_pods(fleet.clients[name], pods)) for name in WORKERS]
        for when, (clusters, write) in MOMENTS.items():
            leader = await both.find_leader()
            late, jobs = await stop_and_go_on(both, leader, clusters, write)
            assert late == [], when
            assert {job: len(pods[job]) for job in jobs} == dict.fromkeys(jobs, 1), when
            await both.start()
        for task in counts:
            task.cancel()


async def stop_and_go_on(
    both: TwoManagers, leader: Manager, clusters: tuple[str, ...], write: str
) -> tuple[list[Write], list[str]]:
    """Stop the leader at a write until the other one leads, and wait until all jobs have ended.

    Returns:
        What the first one wrote after the other one led; the jobs.
    """
    fleet, watched = both.fleet, both.watched
    watched.stopped.clear()
    async with held_jobs(fleet) as jobs:
        watched.stop_at = leader.pid, clusters, write
    async with asyncio.timeout(60):
        await watched.stopped.wait()
    stopped_at, pid = len(watched.writes), leader.pid
    await both.find_leader(but=leader)
    went_on_at = len(watched.writes)
    leader.signal(signal.SIGCONT)
    for name in jobs:
        await until_one(
            fleet.manager,
            JOBS,
            name,
            lambda obj: is_true(obj, "Complete"),
            namespace=TEAM,
            seconds=60,
        )
    async with asyncio.timeout(10):
        while leader.is_running:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    others = {write.pid for write in watched.writes[stopped_at:]} - {pid}
    assert others, "the other one wrote, and was told apart"
    return [write for write in watched.writes[went_on_at:] if write.pid == pid], jobs
