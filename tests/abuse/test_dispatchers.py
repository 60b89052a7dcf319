"""Dispatchers that somebody else wrote: one attacks, the other queues dispatch with theirs."""

from __future__ import annotations

import asyncio
import contextlib
import re
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

ATTACKS = {
    "Loops": "did not answer within 2 s",
    "JustInTime": "is slow, and others wait for its answer",
    "Late": "did not answer within 2 s",
    "Allocates": "filled the memory|did not answer within 2 s",
    "Forks": "PermissionError",
    "Exits": "SystemExit: 3",
    "Prints": "did not answer within 2 s|nowhere is no cluster of this check",
    "Million": "did not answer within 2 s|items, more than 4096|more than 4194304",
    "HalfMillion": "clusters has 400000 items, more than 4096",
    "Verdicts": "verdicts has 40000 items, more than 4096",
    "Newlines": "worker-a100 admitted: true is no cluster of this check",
    "NotANumber": "is nan, no int",
    "WrongType": "no Nomination",
    "Bombs": "worker-x is no cluster of this check|did not answer within 2 s",
}
BROKEN = {"breaks": "SystemExit|status 7", "hangs": "still being loaded|could not be loaded"}
"""Packages that attack when they are imported."""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages, as an installer leaves them."""
    folder = tmp_path_factory.mktemp("packages")
    install(folder, "attackers", CODE, {kind.lower(): kind for kind in ATTACKS})
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
async def attacked(fleet: Fleet, dispatcher: str, **spec: object) -> AsyncIterator[None]:
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
        yield
    finally:
        await _annotate(fleet, None)
        for name in names:
            await fleet.manager.delete(JOBS, name, namespace=ATTACKER, propagation="Background")
        await fleet.manager.delete(DISPATCH_PROFILES, profile)


async def _annotate(fleet: Fleet, profile: str | None) -> None:
    patch = {"metadata": {"annotations": {DISPATCH_PROFILE: profile}}}
    await fleet.manager.patch(LOCAL_QUEUES, ATTACKER, patch, namespace=ATTACKER)


async def _until_said(fleet: Fleet, words: str) -> None:
    """Wait until the check of one of the attacker's Workloads gives this reason."""
    said: set[str] = set()
    async with asyncio.timeout(60):
        while not any(re.search(words, each) for each in said):
            await asyncio.sleep(0.5)
            for workload in (await fleet.manager.list(WORKLOADS, namespace=ATTACKER)).items:
                checks = workload.get("status", {}).get("admissionChecks") or ()
                said.update(check.get("message", "") for check in checks)
    assert all(each.isprintable() for each in said)


@pytest.mark.parametrize(
    ("dispatcher", "words"),
    [(kind.lower(), words) for kind, words in (ATTACKS | BROKEN).items()],
    ids=[*ATTACKS, *BROKEN],
)
async def test_others_dispatch_while_one_attacks(armed: Fleet, dispatcher: str, words: str) -> None:
    async with attacked(armed, dispatcher, timeBudget="2s"):
        await armed.run_job(seconds=BYSTANDER_SECONDS)
        await _until_said(armed, words)
