"""What the outside does in a run: each act of a script by its name.

Acts that last end by themselves; what they broke is mended then, and once more when all is healed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from multiqueue.api import names
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE
from tests.fleet import owners
from tests.fleet.api_server import RefusedError
from tests.fleet.kinds import make_job, without_manager
from tests.fleet.objects import Json
from tests.fleet.plan import Act
from tests.fleet.trainers import POLICY
from tests.fleet.weather import Down, Fault
from tests.fleet.world import HUB, PRIORITIES, FleetWorld

Do = Callable[..., Awaitable[None]]


async def perform(world: FleetWorld, act: Act) -> None:
    """Do one act, to its end."""
    world.history.note("act", str(act))
    await ACTS[act.name](world, *act.arguments)
    world.look_around()


# ---------------------------------------------------------------- network


async def storm(
    world: FleetWorld, where: str, seconds: float, rates: tuple[tuple[Fault, float], ...]
) -> None:
    """Let requests between the managers and a cluster suffer faults for a while."""
    clusters = [HUB, *world.workers] if where == "*" else [where]
    weathers = [world.network.weather(m.group, c) for m in world.managers for c in clusters]
    for weather in weathers:
        weather.rates = {**weather.rates, **dict(rates)}
    world.look_around()
    await asyncio.sleep(seconds)
    mine = dict(rates)
    for weather in weathers:
        weather.rates = {f: rate for f, rate in weather.rates.items() if f not in mine}


async def outage(world: FleetWorld, worker: str, seconds: float, down: Down) -> None:
    """Cut the managers off from a worker for a while."""
    await _down(world, worker, seconds, down, [manager.group for manager in world.managers])


async def hub_outage(world: FleetWorld, index: int, seconds: float, down: Down) -> None:
    """Cut one manager off from its own API server for a while."""
    await _down(world, HUB, seconds, down, [world.managers[index].group])


async def _down(
    world: FleetWorld, cluster: str, seconds: float, down: Down, groups: list[str]
) -> None:
    for group in groups:
        world.network.set_down(group, cluster, down)
    world.look_around()
    await asyncio.sleep(seconds)
    for group in groups:
        world.network.set_down(group, cluster, None)


async def cut_watches(world: FleetWorld, cluster: str) -> None:
    """Break all watches on a cluster."""
    world.network.cut_watches(cluster)


async def compact(world: FleetWorld, cluster: str) -> None:
    """Have a cluster forget its history, and break its watches: 410 for whoever comes back."""
    world.network.servers[cluster].compact()
    world.network.cut_watches(cluster)


# ---------------------------------------------------------------- processes


async def kill_manager(world: FleetWorld, index: int, back: float) -> None:
    """Kill a manager from one moment to the next."""
    await world.end_manager(index, kill=True, back=back)


async def stop_manager(world: FleetWorld, index: int, back: float) -> None:
    """End a manager kindly."""
    await world.end_manager(index, kill=False, back=back)


async def kill_manager_at_write(
    world: FleetWorld,
    index: int,
    number: int,
    after: bool,
    back: float,
    worker: str,
    cut: float,
    down: Down,
) -> None:
    """Kill a manager just before or after one of its next writes; a worker may go with it."""
    killed = asyncio.Event()
    world.kill_at_write(index, number, after=after, back=back, on_killed=killed.set)
    if cut:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(cut):
                await killed.wait()
        if killed.is_set():
            await outage(world, worker, cut, down)


async def pause_manager_at_write(
    world: FleetWorld, index: int, number: int, seconds: float, of: str = ""
) -> None:
    """Stop a manager with SIGSTOP for a while, just after one of its next writes."""
    world.pause_at_write(index, number, seconds, of)


async def kill_manager_at_each_write(
    world: FleetWorld, of: str, after: bool, back: float, seconds: float
) -> None:
    """Kill a manager at each of its writes to a kind of object: it gets one write further.

    A write that must not take effect would never be got over, so every second one is allowed.
    """
    number = 1 if after else 2
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                killed = asyncio.Event()
                world.kill_at_write(0, number, after=after, back=back, on_killed=killed.set, of=of)
                await killed.wait()
                await asyncio.sleep(back + 0.1)


async def kill_worker_controllers(world: FleetWorld, worker: str, seconds: float) -> None:
    """Kill the controllers of a worker; they come back."""
    program = world.controllers.get(worker)
    if program is None or not program.is_running:
        return
    await program.stop(kill=True)
    await asyncio.sleep(seconds)
    if not program.is_running:
        program.start()


# ---------------------------------------------------------------- workers


async def wipe(world: FleetWorld, worker: str, seconds: float) -> None:
    """Lose everything of jobs on a worker, as when it is made anew; its queues come back."""
    world.trouble(worker, 1)
    world.job_controllers[worker].lose_all()
    queues = ("localqueues", "clusterqueues", "resourceflavors")
    world.workers[worker].wipe((*world.job_plurals, "workloads", *queues))
    world.network.cut_watches(worker)
    await asyncio.sleep(seconds)
    world.make_queues(worker, world.plan.workers[worker])
    world.trouble(worker, -1)


async def resize(world: FleetWorld, worker: str, gpus: int, seconds: float) -> None:
    """Change the quota of a worker for a while."""
    set_quota(world, worker, gpus)
    await asyncio.sleep(seconds)
    set_quota(world, worker, world.plan.workers[worker])


def set_quota(world: FleetWorld, worker: str, gpus: int) -> None:
    """Set the quota of a worker."""
    resource = {"name": GPU, "nominalQuota": str(gpus)}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "gpu", "resources": [resource]}]}]
    world.workers[worker].edit("clusterqueues", "cq", {"spec": {"resourceGroups": groups}})


async def hold_queue(world: FleetWorld, worker: str, seconds: float) -> None:
    """Have a worker's queue stop and evict what runs."""
    server = world.workers[worker]
    server.edit("clusterqueues", "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await asyncio.sleep(seconds)
    server.edit("clusterqueues", "cq", {"spec": {"stopPolicy": "None"}})


async def unserve_jobs(world: FleetWorld, worker: str, seconds: float) -> None:
    """Have a worker not serve Jobs for a while, as if the kind were not installed."""
    world.trouble(worker, 1)
    world.workers[worker].unserved.update(world.job_plurals)
    world.network.cut_watches(worker)
    await asyncio.sleep(seconds)
    world.workers[worker].unserved.difference_update(world.job_plurals)
    world.trouble(worker, -1)


async def local_rival(world: FleetWorld, worker: str, gpus: int, seconds: float) -> None:
    """Submit a job of the worker's own with a high priority; it preempts where it can."""
    server = world.workers[worker]
    body = make_gpu_job(f"rival{world.history.counts.get('act', 0)}", gpus=gpus, managed_by=None)
    body["metadata"]["annotations"] = {"fleet/seconds": str(seconds)}
    if server.find("workloadpriorityclasses", "high") is None:
        value = {"metadata": {"name": "high"}, "value": PRIORITIES["high"] * 2}
        server.add(
            "workloadpriorityclasses",
            {"apiVersion": names.V1BETA2, "kind": "WorkloadPriorityClass", **value},
        )
    body["metadata"]["labels"][names.PRIORITY_CLASS] = "high"
    if worker in world.controllers:
        _add(world, worker, "jobs", body)
    else:
        for workload in server.list_all("workloads"):
            world.players[worker].evict(_key(workload))


async def evict_there(world: FleetWorld, worker: str, job: str) -> None:
    """Evict a copy on its worker: deactivated for a moment, as an admin there may do."""
    workload = world.workload_of(job)
    if workload is None:
        return
    player = world.players.get(worker)
    if player is not None:
        player.evict(_key(workload))
        return
    server = world.workers[worker]
    server.edit("workloads", _key(workload), {"spec": {"active": False}})
    await asyncio.sleep(3.0)
    server.edit("workloads", _key(workload), {"spec": {"active": True}})


async def delete_copy(world: FleetWorld, worker: str, job: str) -> None:
    """Delete a copy by hand."""
    workload = world.workload_of(job)
    if workload is not None:
        _delete(world, worker, "workloads", _key(workload))


async def delete_remote_job(
    world: FleetWorld, worker: str, job: str, foreground: bool = False
) -> None:
    """Delete a remote job by hand; in the foreground it stays until its pods are gone."""
    _delete(world, worker, world.plural_of(job), f"{NAMESPACE}/{job}", foreground=foreground)


async def foreign_job(world: FleetWorld, worker: str, job: str) -> None:
    """Have somebody on the worker submit a job of the same name that is none of ours."""
    plural = world.plural_of(job)
    body = without_manager(make_job(world.kind_of(job), job, gpus=1))
    body["metadata"]["labels"] = {"somebody": "else"}
    _add(world, worker, plural, body)


async def foreign_workload(world: FleetWorld, worker: str, job: str) -> None:
    """Have a Workload on the worker that has the name of a copy and is none of ours."""
    workload = world.workload_of(job)
    if workload is None:
        return
    metadata = {"name": workload["metadata"]["name"], "namespace": NAMESPACE}
    body = {**workload, "metadata": metadata, "spec": {**workload["spec"], "active": False}}
    _add(world, worker, "workloads", body)


# ---------------------------------------------------------------- configuration


async def unconfigure(world: FleetWorld, worker: str, seconds: float) -> None:
    """Take a worker out of the MultiKueueConfig for a while."""
    if len(world.configured) == 1:
        return
    world.configured.pop(worker, None)
    world.trouble(worker, 1)
    world.set_clusters()
    await asyncio.sleep(seconds)
    world.configured[worker] = None
    world.set_clusters()
    world.trouble(worker, -1)


async def remake_cluster(world: FleetWorld, worker: str, seconds: float) -> None:
    """Delete a MultiKueueCluster, and make it again later."""
    if world.hub.find("multikueueclusters", worker) is None:
        return
    world.trouble(worker, 1)
    world.hub.mark_deleted("multikueueclusters", worker)
    await asyncio.sleep(seconds)
    world.add_cluster(worker)
    world.trouble(worker, -1)


async def rotate_secret(world: FleetWorld, worker: str, overlap: float) -> None:
    """Give the manager a new token; the worker takes the old one for a while longer."""
    old = world.tokens[worker]
    number = int(old.rpartition("-")[2]) + 1
    world.put_secret(worker, f"token-{worker}-{number}")
    await asyncio.sleep(overlap)
    world.workers[worker].tokens.discard(old)


async def bad_secret(world: FleetWorld, worker: str, seconds: float) -> None:
    """Have a kubeconfig that does not work for a while."""
    world.trouble(worker, 1)
    world.put_secret(worker, "wrong", valid=False)
    await asyncio.sleep(seconds)
    world.put_secret(worker, world.tokens[worker])
    world.trouble(worker, -1)


async def cordon(world: FleetWorld, worker: str, seconds: float) -> None:
    """Send nothing new to a worker for a while."""
    _ask(world, worker, {names.CORDON: "true"})
    await asyncio.sleep(seconds)
    _ask(world, worker, {names.CORDON: None})


def uncordon(world: FleetWorld, worker: str) -> None:
    """Let a worker be used again, whatever was asked of it."""
    _ask(world, worker, {names.CORDON: None, names.DRAIN: None})


def _ask(world: FleetWorld, worker: str, orders: dict[str, str | None]) -> None:
    world.hub.edit("multikueueclusters", worker, {"metadata": {"annotations": orders}})


async def drain(world: FleetWorld, worker: str, order: str, seconds: float, job: str = "") -> None:
    """Have what runs on a worker leave it, for a while: the one that runs this job, if any does."""
    status = (world.workload_of(job) or {}).get("status") or {}
    worker = status.get("clusterName") or worker
    _ask(world, worker, {names.DRAIN: order})
    await asyncio.sleep(seconds)
    _ask(world, worker, {names.DRAIN: None})


async def hold_hub(world: FleetWorld, policy: str, seconds: float) -> None:
    """Have the manager's queue stop, and evict what runs or not."""
    world.hub.edit("clusterqueues", "cq", {"spec": {"stopPolicy": policy}})
    await asyncio.sleep(seconds)
    world.hub.edit("clusterqueues", "cq", {"spec": {"stopPolicy": "None"}})


# ---------------------------------------------------------------- users


async def delete_job(world: FleetWorld, job: str) -> None:
    """Delete a job of the manager's cluster."""
    _delete(world, HUB, world.plural_of(job), f"{NAMESPACE}/{job}")


async def deactivate(world: FleetWorld, job: str, seconds: float) -> None:
    """Deactivate a Workload, and activate it again later."""
    workload = world.workload_of(job)
    if workload is None:
        return
    world.hub.edit("workloads", _key(workload), {"spec": {"active": False}})
    await asyncio.sleep(seconds)
    world.hub.edit("workloads", _key(workload), {"spec": {"active": True}})


async def change_priority(world: FleetWorld, job: str, priority: str) -> None:
    """Give a job another priority class."""
    labels = {"metadata": {"labels": {names.PRIORITY_CLASS: priority}}}
    world.hub.edit(world.plural_of(job), f"{NAMESPACE}/{job}", labels)


async def protect(world: FleetWorld, seconds: float) -> None:
    """Have the policy protect what runs for a while: who was told to leave may stay."""
    edit_policy(world, {"queue": "10m"})
    await asyncio.sleep(seconds)
    edit_policy(world, None)


def edit_policy(world: FleetWorld, least: dict[str, str] | None) -> None:
    """Set how long jobs may run before they are stopped for others."""
    patch = {"spec": {"protection": {"minRun": least}}}
    world.hub.edit("disruptionpolicies", POLICY, patch)


# ---------------------------------------------------------------- healing


def heal(world: FleetWorld) -> None:
    """Mend everything: what is left to do can be done now."""
    world.network.calm()
    edit_policy(world, None)
    world.hub.edit("clusterqueues", "cq", {"spec": {"stopPolicy": "None"}})
    for worker, server in world.workers.items():
        server.unserved.clear()
        owners.make_namespace(world, worker)
        owners.release(world, worker)
        set_quota(world, worker, world.plan.workers[worker])
        server.edit("clusterqueues", "cq", {"spec": {"stopPolicy": "None"}})
        _remove_foreign(server, (*world.job_plurals, "workloads"))
        world.add_cluster(worker)
        uncordon(world, worker)
        world.put_secret(worker, world.tokens[worker])
        world.configured[worker] = None
        program = world.controllers.get(worker)
        if program is not None and not program.is_running:
            program.start()
    world.set_clusters()
    world.make_check()
    world.troubled.clear()
    for manager in world.managers:
        manager.resume()
        if not manager.is_running and manager.process is None:
            manager.start()
        if manager.process is not None:
            manager.process.on_write = None
    for workload in world.hub.list_all("workloads"):
        world.hub.edit("workloads", _key(workload), {"spec": {"active": True}})
    world.look_around()


def _remove_foreign(server: object, plurals: tuple[str, ...]) -> None:
    from tests.fleet.api_server import ApiServer

    assert isinstance(server, ApiServer)
    for plural in plurals:
        for obj in server.list_all(plural):
            if names.MULTIKUEUE_ORIGIN not in (obj["metadata"].get("labels") or {}):
                server.mark_deleted(plural, _key(obj))


def _delete(
    world: FleetWorld, cluster: str, plural: str, key: str, *, foreground: bool = False
) -> None:
    server = world.network.servers[cluster]
    if server.find(plural, key) is not None:
        server.mark_deleted(plural, key, foreground=foreground)


def _add(world: FleetWorld, cluster: str, plural: str, body: Json) -> None:
    try:
        world.network.servers[cluster].add(plural, body)
    except RefusedError:
        world.history.note("act in vain", f"{cluster} refused {plural} {body['metadata']['name']}")


def _key(obj: Json) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


ACTS: dict[str, Do] = {
    do.__name__: do
    for do in (
        storm,
        outage,
        hub_outage,
        cut_watches,
        compact,
        kill_manager,
        stop_manager,
        kill_manager_at_write,
        kill_manager_at_each_write,
        kill_worker_controllers,
        wipe,
        resize,
        hold_queue,
        unserve_jobs,
        local_rival,
        evict_there,
        delete_copy,
        delete_remote_job,
        foreign_job,
        foreign_workload,
        unconfigure,
        remake_cluster,
        rotate_secret,
        bad_secret,
        cordon,
        drain,
        hold_hub,
        delete_job,
        deactivate,
        change_priority,
        protect,
        pause_manager_at_write,
        owners.restore,
        owners.forbid,
        owners.hold_deletion,
        owners.lose_namespace,
        owners.lose_kinds,
        owners.edit_there,
        owners.swap_secret,
        owners.remake_check,
    )
}
