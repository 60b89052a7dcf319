"""The jobs of a soak: one after the other of all kinds, each followed from creation to its end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_admitted
from multiqueue.embedded.cluster.simulated_kinds import SimulatedKind
from multiqueue.jobs.reading import is_over
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, NotFound, TransportError
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import PODS, WORKLOADS, Resource, resource_of
from multiqueue.runtime.demo.kinds import build_examples
from tests.bench.fleet_burst import QUEUE

PRIORITIES = {"high": 100, "low": 1}
NAME = re.compile(r"soak\d{5}")
SERVES_SECONDS = 20.0
"""How long a kind that never ends is left running."""
OVERLAPS = 4
"""Looks, a second each, in which a job must be seen on two workers to count as doubled: their
watches need not be equally fast."""


@dataclass
class SoakJob:
    """One submitted example."""

    name: str
    ends: bool
    resource: Resource
    objects: Sequence[dict[str, Any]]
    submitted_at: float
    admitted_at: float | None = None
    is_deleted: bool = False
    done_at: float | None = None


@dataclass
class JobBook:
    """Submits jobs, deletes those that have ended, and notes what is wrong with any.

    Attributes:
        jobs: Those that are not gone yet, by name.
        problems: Jobs that ran on two workers at a time.
        waits: Submission time and seconds until the first admission.
    """

    manager: KubeClient
    workers: Mapping[str, KubeClient]
    kinds: Sequence[SimulatedKind]
    rows: Mapping[str, Any]
    begun: float
    jobs: dict[str, SoakJob] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    submitted: int = 0
    refused: int = 0
    ended: int = 0
    overlaps: dict[str, int] = field(default_factory=dict)
    empty: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while nothing is in flight."""

    def __post_init__(self) -> None:
        self.chance = random.Random(20)
        self.numbers = itertools.count(1)
        self.workloads: Informer[Workload] = Informer(
            self.manager, WORKLOADS, decode=lambda data: decode(Workload, data)
        )
        self.workloads.add_handler(self._on_workload)
        self.watched: dict[Resource, Informer[dict[str, Any]]] = {
            resource: Informer(self.manager, resource, namespace=QUEUE)
            for resource in {self._resource(each) for each in self.kinds}
        }
        self.pods: dict[str, Informer[dict[str, Any]]] = {
            name: Informer(client, PODS, namespace=QUEUE) for name, client in self.workers.items()
        }

    def informers(self) -> list[Informer[Any]]:
        return [self.workloads, *self.watched.values(), *self.pods.values()]

    def _resource(self, each: SimulatedKind) -> Resource:
        row = self.rows[each.framework]
        return resource_of(row.api_version, row.plural, row.kind)

    async def submit(self) -> None:
        """Create an example of the next kind; if the manager is away, its webhook refuses."""
        number = next(self.numbers)
        each = self.kinds[number % len(self.kinds)]
        name = f"soak{number:05}"
        built = build_examples(each, QUEUE)
        old = min((job["metadata"]["name"] for job in built), key=len)
        old = old.removesuffix("-0") if each.members > 1 else old
        text = orjson.dumps(built).decode().replace(old, name).replace('"demo"', f'"{name}"')
        text = text.replace(f'"{"multiqueue.dev/sim-run-seconds"}":"2"', _run_seconds(self.chance))
        objects = orjson.loads(text)
        for obj in objects:
            obj["metadata"]["labels"][names.PRIORITY_CLASS] = self.chance.choice(tuple(PRIORITIES))
        priority = objects[0]["metadata"]["labels"][names.PRIORITY_CLASS]
        for obj in objects:
            obj["metadata"]["labels"][names.PRIORITY_CLASS] = priority
        resource = self._resource(each)
        for obj in objects:
            while True:
                try:
                    await self.manager.create(resource, obj, namespace=QUEUE)
                except (ApiError, TransportError):
                    self.refused += 1
                    await asyncio.sleep(1)
                else:
                    break
        self.submitted += 1
        self.jobs[name] = SoakJob(name, each.ends, resource, objects, time.monotonic())

    def _on_workload(self, _: Workload | None, new: Workload | None) -> None:
        if new is None or not is_admitted(new.status):
            return
        owners = (*(owner.name for owner in new.metadata.owner_references), new.metadata.name)
        found = next(filter(None, map(NAME.search, owners)), None)
        job = self.jobs.get(found.group()) if found else None
        if job is not None and job.admitted_at is None:
            job.admitted_at = time.monotonic()
            wait = job.admitted_at - job.submitted_at
            self.waits.append((job.submitted_at - self.begun, wait))

    async def look(self) -> None:
        """Delete jobs that are done, forget those that are gone, and look for doubled ones."""
        self._find_doubled()
        now = time.monotonic()
        for job in list(self.jobs.values()):
            seen = [self.watched[job.resource].store.get(key) for key in _keys(job)]
            if job.is_deleted:
                if not any(seen):
                    del self.jobs[job.name]
                    self.ended += 1
            elif self._is_done(job, seen, now):
                await self._delete(job)
        if self.jobs:
            self.empty.clear()
        else:
            self.empty.set()

    def _is_done(self, job: SoakJob, seen: Sequence[Any], now: float) -> bool:
        if not job.ends:
            return job.admitted_at is not None and now - job.admitted_at > SERVES_SECONDS
        about = {"apiVersion": job.resource.api_version, "kind": job.resource.kind}
        return all(each is not None and is_over({**each, **about}) for each in seen)

    async def _delete(self, job: SoakJob) -> None:
        try:
            for obj in job.objects:
                with contextlib.suppress(NotFound):
                    await self.manager.delete(
                        job.resource,
                        obj["metadata"]["name"],
                        namespace=QUEUE,
                        propagation="Background",
                    )
        except (ApiError, TransportError):
            return  # again at the next look
        job.is_deleted = True

    def _find_doubled(self) -> None:
        places: dict[str, set[str]] = {}
        for worker, informer in self.pods.items():
            for pod in informer.store.list():
                found = find_identity(pod)
                is_running = pod.get("status", {}).get("phase") == "Running"
                if found and is_running and not pod["metadata"].get("deletionTimestamp"):
                    places.setdefault(found, set()).add(worker)
        doubled = {name for name, where in places.items() if len(where) > 1}
        self.overlaps = {name: self.overlaps.get(name, 0) + 1 for name in doubled}
        self.problems.extend(
            f"{self._describe(name)} runs on {', '.join(sorted(places[name]))} at the same time"
            for name, count in self.overlaps.items()
            if count == OVERLAPS
        )

    def _describe(self, name: str) -> str:
        """Return a job with its running pods."""
        pods = [
            f"{worker}/{pod['metadata']['name']} {pod['status'].get('phase')} since "
            f"{pod['metadata']['creationTimestamp']}"
            for worker, informer in self.pods.items()
            for pod in informer.store.list()
            if find_identity(pod) == name
        ]
        return f"{name} ({', '.join(pods)})"


def find_identity(pod: dict[str, Any]) -> str:
    """Return what must run on one worker only: the pod's Workload, or the job of its name.

    Each pod of a Deployment and each group of a LeaderWorkerSet is dispatched by itself.
    """
    metadata = pod["metadata"]
    marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    found = NAME.search(metadata["name"])
    return str(marks.get(names.PREBUILT_WORKLOAD_NAME) or (found.group() if found else ""))


def _keys(job: SoakJob) -> list[str]:
    return [f"{QUEUE}/{obj['metadata']['name']}" for obj in job.objects]


def _run_seconds(chance: random.Random) -> str:
    return f'"multiqueue.dev/sim-run-seconds":"{chance.randint(2, 25)}"'
