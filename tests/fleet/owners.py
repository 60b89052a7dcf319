"""What the owners of a worker's cluster do: restores, rights, namespaces, finalizers, edits.

Acts like those of `acts`, which lists them with its own.
"""

from __future__ import annotations

import asyncio

from multiqueue.api import names
from tests.builders.workloads import NAMESPACE
from tests.fleet.objects import Json
from tests.fleet.world import FleetWorld

HOLDER = "somebody.example.com/else"
"""The finalizer of a controller that takes its time."""
EDITS: dict[str, Json] = {
    "label": {"metadata": {"labels": {names.MULTIKUEUE_ORIGIN: None}}},
    "epoch": {"metadata": {"annotations": {names.DISPATCH_EPOCH: None}}},
    "stamp": {"metadata": {"annotations": {names.MANAGER: None}}},
    "suspend": {"spec": {"suspend": True}},
}
"""What somebody changes of a job by hand."""


async def restore(world: FleetWorld, worker: str, seconds: float, silent: bool) -> None:
    """Bring a worker back to what it was some seconds ago: its etcd was restored from a backup.

    Watches that are opened again from a version which it has not reached are refused, or silent.
    """
    server, saved = world.workers[worker], world.workers[worker].save()
    await asyncio.sleep(seconds)
    program = world.controllers.get(worker)
    was_running = program is not None and program.is_running
    if program is not None and was_running:
        await program.stop(kill=True)
    world.trouble(worker, 1)
    server.restore(saved, silent=silent)
    world.network.cut_watches(worker)
    world.trouble(worker, -1)
    if program is not None and was_running and not program.is_running:
        program.start()


async def forbid(
    world: FleetWorld, worker: str, pairs: tuple[tuple[str, str], ...], seconds: float
) -> None:
    """Take rights away from the managers for a while: methods on collections."""
    weathers = [world.network.weather(manager.group, worker) for manager in world.managers]
    for weather in weathers:
        weather.forbidden |= dict.fromkeys(pairs)
    world.network.cut_watches(worker)
    world.look_around()
    await asyncio.sleep(seconds)
    for weather in weathers:
        weather.forbidden = {p: None for p in weather.forbidden if p not in pairs}


async def hold_deletion(world: FleetWorld, worker: str, job: str, of: str, seconds: float) -> None:
    """Keep a job or its copy from going once it is deleted, for a while."""
    found = _find(world, worker, job, of)
    if found is None:
        return
    plural, key = found
    server = world.workers[worker]
    obj = server.find(plural, key) or {}
    held = [*(obj["metadata"].get("finalizers") or ()), HOLDER]
    server.edit(plural, key, {"metadata": {"finalizers": held}})
    await asyncio.sleep(seconds)
    release(world, worker)


def release(world: FleetWorld, worker: str) -> None:
    """Let go what `hold_deletion` holds on a worker."""
    server = world.workers[worker]
    for plural in (*world.job_plurals, "workloads"):
        for obj in server.list_all(plural):
            finalizers = obj["metadata"].get("finalizers") or ()
            if HOLDER in finalizers:
                left = [each for each in finalizers if each != HOLDER]
                key = f"{NAMESPACE}/{obj['metadata']['name']}"
                server.edit(plural, key, {"metadata": {"finalizers": left}})


async def lose_namespace(world: FleetWorld, worker: str, seconds: float) -> None:
    """Delete the namespace of the jobs with all that is in it, and make it anew later."""
    server = world.workers[worker]
    if server.find("namespaces", NAMESPACE) is None:
        return
    world.trouble(worker, 1)
    for plural in (*world.job_plurals, "workloads", "localqueues"):
        for obj in server.list_all(plural):
            server.mark_deleted(plural, f"{NAMESPACE}/{obj['metadata']['name']}")
    server.mark_deleted("namespaces", NAMESPACE)
    await asyncio.sleep(seconds)
    make_namespace(world, worker)
    world.trouble(worker, -1)


def make_namespace(world: FleetWorld, worker: str) -> None:
    """Make the namespace of the jobs on a worker, and their queue, as far as they are missing."""
    if world.workers[worker].find("namespaces", NAMESPACE) is None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        world.workers[worker].add("namespaces", namespace)
    world.make_queues(worker, world.plan.workers[worker])


async def lose_kinds(world: FleetWorld, worker: str, seconds: float) -> None:
    """Remove the CRDs of the jobs on a worker, and with them all jobs; install them again later."""
    server = world.workers[worker]
    world.trouble(worker, 1)
    world.job_controllers[worker].lose_all()
    server.wipe(world.job_plurals)
    server.unserved.update(world.job_plurals)
    world.network.cut_watches(worker)
    await asyncio.sleep(seconds)
    server.unserved.difference_update(world.job_plurals)
    world.trouble(worker, -1)


async def edit_there(world: FleetWorld, worker: str, job: str, of: str, what: str) -> None:
    """Change a job or its copy on a worker by hand."""
    found = _find(world, worker, job, of)
    if found is not None and not (what == "suspend" and of == "copy"):
        plural, key = found
        world.truth.strike(worker, key if of == "copy" else _key_of_copy(world, job))
        world.workers[worker].edit(plural, key, EDITS[what])


async def swap_secret(world: FleetWorld, worker: str, other: str, seconds: float) -> None:
    """Give a worker's name the kubeconfig of another worker for a while, by mistake."""
    world.trouble(worker, 1)
    world.trouble(other, 1)
    world.put_secret(worker, world.tokens[other], host=other)
    await asyncio.sleep(seconds)
    world.put_secret(worker, world.tokens[worker])
    world.trouble(worker, -1)
    world.trouble(other, -1)


async def remake_check(world: FleetWorld, plural: str, seconds: float) -> None:
    """Delete the AdmissionCheck or the MultiKueueConfig, and make it again later."""
    for worker in world.workers:
        world.trouble(worker, 1)
    for obj in world.hub.list_all(plural):
        world.hub.mark_deleted(plural, obj["metadata"]["name"])
    await asyncio.sleep(seconds)
    world.make_check()
    for worker in world.workers:
        world.trouble(worker, -1)


def _key_of_copy(world: FleetWorld, job: str) -> str:
    workload = world.workload_of(job)
    return f"{NAMESPACE}/{workload['metadata']['name']}" if workload is not None else ""


def _find(world: FleetWorld, worker: str, job: str, of: str) -> tuple[str, str] | None:
    """Return collection and key of a job on a worker, or of its copy; None: it is not there."""
    plural = world.plural_of(job) if of == "job" else "workloads"
    key = f"{NAMESPACE}/{job}" if of == "job" else _key_of_copy(world, job)
    return (plural, key) if world.workers[worker].find(plural, key) is not None else None
