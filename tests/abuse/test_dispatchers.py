"""Dispatchers that somebody else wrote: while one attacks, the other queues dispatch with theirs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from multiqueue.api.names import DISPATCH_PROFILE, V1ALPHA1
from multiqueue.kube.errors import ServerError
from multiqueue.kube.resources import DISPATCH_PROFILES, JOBS, LOCAL_QUEUES, WORKLOADS
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from tests.abuse.fleet import Fleet
from tests.dispatcher_package import install

ATTACKER = "research"
JOBS_OF_ATTACKER = 40
"""More than the Workloads that the manager works on at a time."""
BYSTANDER_SECONDS = 15.0
"""A job of another queue takes 1 to 2 s on an idle machine. Waiting behind each of the attacker's
would take minutes."""

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


class Names:
    def __init__(self):
        self.asked = 0

    name = "names"

    def nominate(self, view):
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

ATTACKS = [
    ("Loops", "did not answer within 2 s"),
    ("JustInTime", ""),
    ("Late", "did not answer within 2 s"),
    ("Allocates", "filled the memory"),
    ("Forks", "cannot start other processes|failed|Operation not permitted|PermissionError"),
    ("Exits", "SystemExit"),
    ("Prints", "nowhere"),
    ("Names", "items"),
    ("HalfMillion", "items"),
    ("Verdicts", "items"),
    ("Newlines", "nowhere"),
    ("NotANumber", "no int"),
    ("WrongType", "no Nomination"),
    ("Bombs", "worker-x"),
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages, as an installer leaves them."""
    folder = tmp_path_factory.mktemp("packages")
    install(folder, "attackers", CODE, {kind.lower(): kind for kind, _ in ATTACKS})
    install(folder, "breaks", "raise SystemExit(7)", {"breaks": "Never"})
    install(folder, "hangs", "while True: pass", {"hangs": "Never"})
    return folder


@pytest.fixture
async def armed(fleet: Fleet, packages: Path) -> Fleet:
    """The fleet, whose manager has the packages installed."""
    program = fleet.program
    if program.environment.get("PYTHONPATH") != str(packages):
        program.environment = {**program.environment, "PYTHONPATH": str(packages)}
        await program.restart()
        # Ready as a standby; it leads, and its webhooks are asked, a moment later.
        await _until_jobs_are_taken(fleet)
    return fleet


async def _until_jobs_are_taken(fleet: Fleet) -> None:
    job = build_job(DemoJob(team=ATTACKER, name="probe", pods=1, gpus_each=1, run_seconds=0.2))
    async with asyncio.timeout(30):
        while True:
            try:
                await fleet.manager.create(JOBS, job, namespace=ATTACKER, dry_run=True)
            except ServerError:
                await asyncio.sleep(0.2)
            else:
                return


@contextlib.asynccontextmanager
async def attacked(fleet: Fleet, dispatcher: str, **spec: object) -> AsyncIterator[list[str]]:
    """Have a dispatcher decide for the attacker's queue, and submit jobs to it."""
    profile = fleet.unused("attack")
    body = {
        "apiVersion": V1ALPHA1,
        "kind": "DispatchProfile",
        "metadata": {"name": profile},
        "spec": {"dispatcher": dispatcher, **spec},
    }
    await fleet.manager.create(DISPATCH_PROFILES, body)
    await _annotate(fleet, profile)
    names: list[str] = []
    try:
        for _ in range(JOBS_OF_ATTACKER):
            name = fleet.unused("attack")
            job = DemoJob(team=ATTACKER, name=name, pods=1, gpus_each=0, run_seconds=0.2)
            await fleet.manager.create(JOBS, build_job(job), namespace=ATTACKER)
            names.append(name)
        yield names
    finally:
        await _annotate(fleet, None)
        for name in names:
            await fleet.manager.delete(JOBS, name, namespace=ATTACKER, propagation="Background")
        await fleet.manager.delete(DISPATCH_PROFILES, profile)


async def _annotate(fleet: Fleet, profile: str | None) -> None:
    patch = {"metadata": {"annotations": {DISPATCH_PROFILE: profile}}}
    await fleet.manager.patch(LOCAL_QUEUES, ATTACKER, patch, namespace=ATTACKER)


async def messages(fleet: Fleet) -> list[str]:
    found = await fleet.manager.list(WORKLOADS, namespace=ATTACKER)
    return [
        check.get("message", "")
        for workload in found.items
        for check in workload.get("status", {}).get("admissionChecks") or ()
    ]


@pytest.mark.parametrize(("kind", "words"), ATTACKS, ids=[kind for kind, _ in ATTACKS])
async def test_others_dispatch_meanwhile(armed: Fleet, kind: str, words: str) -> None:
    async with attacked(armed, kind.lower(), timeBudget="2s"):
        await asyncio.sleep(3)
        begun = time.monotonic()
        await armed.run_job(seconds=120)
        took = time.monotonic() - begun
        print(kind, f"bystander took {took:.1f} s")
        for message in sorted(set(await messages(armed)))[:3]:
            print("   ", repr(message[:300]))
