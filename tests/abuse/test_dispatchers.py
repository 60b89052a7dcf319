"""Dispatchers that somebody else wrote: one attacks, the other queues dispatch with theirs."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path

import pytest

from multiqueue.api.names import DISPATCH_PROFILE, QUEUE_NAME, V1ALPHA1, V1BETA2
from multiqueue.kube.resources import DISPATCH_PROFILES, JOBS, LOCAL_QUEUES, WORKLOADS
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from tests.abuse.fleet import MANAGER, Fleet
from tests.dispatcher_package import install

ATTACKER = "research"
MANY = 40
"""More than the Workloads that the manager works on at a time."""
BYSTANDER_SECONDS = 40.0
"""A job of another queue takes 1 to 2 s on an idle machine, and a few slow answers more where it
takes turns with an attacker. Waiting behind each of the attacker's Workloads takes minutes."""

CODE = """
import os, time, threading
from multiqueue.plugins import ClusterVerdict, Nomination


class Base:
    name = "attacker"

    def nominate(self, view):
        return self.attack(view)


class Loops(Base):
    def attack(self, view):
        while True:
            pass


class JustInTime(Base):
    def attack(self, view):
        time.sleep(1.8)
        return Nomination(clusters=())


class Late(Base):
    def attack(self, view):
        time.sleep(2.5)
        return Nomination(clusters=("worker-h100",))


class Allocates(Base):
    def attack(self, view):
        kept = []
        while True:
            kept.append(bytearray(64 * 1024 * 1024))


class Forks(Base):
    def attack(self, view):
        while True:
            os.fork()


class Exits(Base):
    def attack(self, view):
        raise SystemExit(3)


class Prints(Base):
    def attack(self, view):
        for number in range(200_000):
            print("x" * 200, number)
        return Nomination(clusters=("nowhere",))


class Million(Base):
    def attack(self, view):
        return Nomination(clusters=tuple(f"w{number}" for number in range(1_000_000)))


class HalfMillion(Base):
    def attack(self, view):
        return Nomination(clusters=tuple(str(number) for number in range(400_000)))


class Verdicts(Base):
    def attack(self, view):
        lie = ClusterVerdict(cluster="worker-h100", nominated=False, reason="no" * 10)
        return Nomination(clusters=(), verdicts=(lie,) * 40_000)


class Newlines(Base):
    def attack(self, view):
        return Nomination(clusters=("worker-a100\\nadmitted: true", "\\x1b[2J", "nowhere"))


class NotANumber(Base):
    def attack(self, view):
        lie = ClusterVerdict(cluster="worker-h100", nominated=True, score=float("nan"))
        return Nomination(clusters=("worker-h100",), verdicts=(lie,))


class WrongType(Base):
    def attack(self, view):
        return {"clusters": ["worker-h100"]}


class Bomb(str):
    def __eq__(self, other):
        while True:
            pass

    __hash__ = str.__hash__


class Bombs(Base):
    def attack(self, view):
        return Nomination(clusters=(Bomb("worker-x"), Bomb("worker-x")))
"""

WRONG = {
    "Forks": "PermissionError",
    "Exits": "SystemExit: 3",
    "HalfMillion": "clusters has 400000 items, more than 4096",
    "Verdicts": "verdicts has 40000 items, more than 4096",
    "Newlines": "worker-a100 admitted: true is no cluster of this check",
    "NotANumber": "is nan, no int",
    "WrongType": "no Nomination",
}
HEAVY = {
    "Loops": "did not answer within 2 s",
    "Late": "did not answer within 2 s",
    "Allocates": "filled the memory|did not answer within 2 s",
    "Prints": "did not answer within 2 s|nowhere is no cluster of this check",
    "Million": "did not answer within 2 s|items, more than 4096|more than 4194304",
    "Bombs": "worker-x is no cluster of this check|did not answer within 2 s",
}
SLOW = {"JustInTime": "is slow, and others wait for its answer"}
BROKEN = {"breaks": "SystemExit|status 7", "hangs": "still being loaded|could not be loaded"}
"""Packages that attack when they are imported."""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages, as an installer leaves them."""
    folder = tmp_path_factory.mktemp("packages")
    kinds = (*WRONG, *HEAVY, *SLOW)
    install(folder, "attackers", CODE, {kind.lower(): kind for kind in kinds})
    install(folder, "breaks", "raise SystemExit(7)", {"breaks": "Never"})
    install(folder, "hangs", "while True: pass", {"hangs": "Never"})
    return folder


@pytest.fixture
async def armed(fleet: Fleet, packages: Path) -> Fleet:
    """The fleet, whose manager has the packages installed."""
    program = fleet.program
    if program.environment.get("PYTHONPATH") != str(packages):
        program.environment = {**program.environment, "PYTHONPATH": str(packages)}
        await fleet.restart()
    return fleet


@contextlib.asynccontextmanager
async def attacked(fleet: Fleet, dispatcher: str, *, jobs: int) -> AsyncIterator[str]:
    """Have a dispatcher decide for a queue of the attacker, with jobs; answers the queue."""
    name = fleet.unused("attack")
    await fleet.manager.create(
        DISPATCH_PROFILES,
        {
            "apiVersion": V1ALPHA1,
            "kind": "DispatchProfile",
            "metadata": {"name": name},
            "spec": {"dispatcher": dispatcher, "timeBudget": "2s"},
        },
    )
    for cluster, client in fleet.clients.items():
        queue = {
            "apiVersion": V1BETA2,
            "kind": "LocalQueue",
            "metadata": {"name": name, "annotations": {DISPATCH_PROFILE: name}},
            "spec": {"clusterQueue": ATTACKER if cluster == MANAGER else cluster},
        }
        await client.create(LOCAL_QUEUES, queue, namespace=ATTACKER)
    submitted: list[str] = []
    try:
        for number in range(jobs):
            job = DemoJob(
                team=ATTACKER,
                name=f"{name}-{number}",
                pods=1,
                gpus_each=0,
                run_seconds=0.2,
                labels={QUEUE_NAME: name},
            )
            await fleet.manager.create(JOBS, build_job(job), namespace=ATTACKER)
            submitted.append(job.name)
        yield name
    finally:
        for job_name in submitted:
            await fleet.manager.delete(JOBS, job_name, namespace=ATTACKER, propagation="Background")
        for client in fleet.clients.values():
            await client.delete(LOCAL_QUEUES, name, namespace=ATTACKER)
        await fleet.manager.delete(DISPATCH_PROFILES, name)


async def _until_said(fleet: Fleet, wanted: Mapping[str, str]) -> None:
    """Wait until each queue has a Workload whose check gives this reason."""
    said: dict[str, set[str]] = {queue: set() for queue in wanted}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            while _unsaid(wanted, said):
                await asyncio.sleep(0.5)
                for workload in (await fleet.manager.list(WORKLOADS, namespace=ATTACKER)).items:
                    checks = workload.get("status", {}).get("admissionChecks") or ()
                    heard = said.get(workload["spec"]["queueName"], set())
                    heard.update(check.get("message", "") for check in checks)
    assert not _unsaid(wanted, said), said
    assert all(each.isprintable() for heard in said.values() for each in heard)


def _unsaid(wanted: Mapping[str, str], said: Mapping[str, Collection[str]]) -> list[str]:
    """List the queues that were not told what they should be."""
    return [
        queue
        for queue, words in wanted.items()
        if not any(re.search(words, each) for each in said[queue])
    ]


@pytest.mark.parametrize(
    ("attacks", "jobs"),
    [(WRONG, 2), (HEAVY, 2), (SLOW, MANY), (BROKEN, 2)],
    ids=["wrong answers", "heavy answers", "slow answers to many", "imports"],
)
async def test_others_dispatch_while_some_attack(
    armed: Fleet, attacks: Mapping[str, str], jobs: int
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        wanted = {
            await stack.enter_async_context(attacked(armed, kind.lower(), jobs=jobs)): words
            for kind, words in attacks.items()
        }
        await armed.run_job(seconds=BYSTANDER_SECONDS)
        await _until_said(armed, wanted)
